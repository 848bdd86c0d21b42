/* The number of the line protocol between an agent and a worker (docs/protocol.md). Raised when lines
 * change their meaning. The agent shows its number in SHOAL_PROTOCOL, the worker in its hello line;
 * each refuses another than its own with a sentence. */
#ifndef SHOAL_WORKER_PROTOCOL_H
#define SHOAL_WORKER_PROTOCOL_H

enum { WORKER_PROTOCOL = 1 };

#endif
