/* A scripted server for tests of the agent: answers every report with what the test has set, and
 * lets the test wait for a report it likes. One thread of libmicrohttpd behind it.
 */
#ifndef SHOAL_AGENT_FAKE_SERVER_H
#define SHOAL_AGENT_FAKE_SERVER_H

#include "codec/agent_report.h"
#include <stdint.h>

enum { FAKE_SERVER_WAIT_MS = 15000 };

struct fake_server;

/* port 0: any. Answers 200 with an empty reply until told otherwise. */
struct fake_server *fake_server_open(uint16_t port);
void fake_server_close(struct fake_server *server);
uint16_t fake_server_port(const struct fake_server *server);

void fake_server_set_reply(struct fake_server *server, const struct agent_reply *reply);
void fake_server_set_raw(struct fake_server *server, unsigned status, const char *body);

/* Waits for a report that passes, and returns it parsed (the caller closes it). Fails the test
 * after FAKE_SERVER_WAIT_MS. Every report that arrives is looked at, in order. */
typedef bool fake_server_test_fn(const struct agent_report *report, void *argument);
struct agent_report fake_server_wait(struct fake_server *server, fake_server_test_fn *test,
                                     void *argument);
/* Forgets what has arrived: waits look at later reports only. */
void fake_server_forget(struct fake_server *server);
uint64_t fake_server_count(struct fake_server *server); /* reports so far */

#endif
