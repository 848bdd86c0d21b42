/* `shoal ckpt ls|verify|diff|merge|reshard|digest|gc DIR`: checkpoints without the program that made
 * them. argv[0] is "ckpt". Exit 0 fine, 1 damaged or unreadable (one sentence on stderr), 2 usage.
 */
#ifndef SHOAL_WORKER_CKPT_CKPT_MAIN_H
#define SHOAL_WORKER_CKPT_CKPT_MAIN_H

int ckpt_main(int argc, char **argv);

#endif
