#include "worker/link/link.h"
#include <string.h>

static const char *const NAMES[] = {[LINK_SHM] = "shm", [LINK_TCP] = "tcp", [LINK_TLS] = "tls"};

const char *link_kind_name(enum link_kind kind)
{
    return NAMES[kind];
}

bool link_parse_kind(const char *text, enum link_kind *ret_kind)
{
    for (int kind = LINK_SHM; kind <= LINK_TLS; kind++)
        if (strcmp(text, NAMES[kind]) == 0) {
            *ret_kind = (enum link_kind)kind;
            return true;
        }
    return false;
}
