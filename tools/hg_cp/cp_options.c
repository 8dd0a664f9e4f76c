/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of hg_cp. */

#include "hg_cp/cp_options.h"

#include <string.h>
#include <unistd.h>

#include "common/tool_message.h"
#include "common/tool_options.h"
#include "hg_cp/cp_protocol.h"

static const char help_text[] =
    "NAME\n"
    "    hg_cp - copy a file from one process to another\n"
    "\n"
    "SYNOPSIS\n"
    "    hg_cp [OPTION]... SOURCE DEST\n"
    "    hg_cp --listen [--init STRING] [--dir DIR] [OPTION]...\n"
    "    hg_cp [--init STRING] --to ADDRESS [OPTION]... FILE [NAME]\n"
    "\n"
    "DESCRIPTION\n"
    "    The first form starts a target process of its own and copies SOURCE to DEST, a file or a\n"
    "    directory, through it. The second is a target: it prints its address and takes files "
    "until\n"
    "    a signal. The third sends FILE to such a target, as NAME or under its own name.\n"
    "\n"
    "    The origin offers the file in parts, each an RPC with a descriptor of the memory that "
    "the\n"
    "    part is mapped to. The target pulls blocks of it and writes them at the same time. Both\n"
    "    sides compute the XXH3-128 digest of what they read and wrote. The file has a temporary\n"
    "    name, .hg_cp-*.part, until the digests are equal. What is not complete is removed, also "
    "when\n"
    "    the origin is killed; what a target leaves that is killed itself, the next one in that\n"
    "    directory removes. Names that would leave the target's directory are refused.\n"
    "\n"
    "OPTIONS\n"
    "    --init STRING        init string of this side; in the first form of both, except that an\n"
    "                         address in it is the target's (default na+sm)\n"
    "    --depth N            target: blocks in the pipeline (default 8)\n"
    "    --block-size BYTES   target: size of each (default 1M); k, M and G are powers of 1024\n"
    "    --part-size BYTES    origin: what one RPC offers (default 64M)\n"
    "    --force              overwrite a file that exists; needed on both sides\n"
    "    --sync               target: a file is on disk before it has its name\n"
    "    --timeout S          end after S seconds without progress (default 60)\n"
    "    --dir DIR            target: where files go (default: the current directory)\n"
    "    --address-file FILE  target: write the address to FILE, too\n"
    "    --key-file FILE      the first line of FILE is a key that both sides have to have, up to\n"
    "                         256 bytes; others must not be able to use FILE. It is not to be on\n"
    "                         a command line, which everybody sees\n"
    "    --encrypt            both sides: nothing that travels can be read without the key\n"
    "    --quiet              print errors alone\n"
    "    --help               print this text\n"
    "\n"
    "    In the first form, options of the target are handed to it. A progress bar is shown when\n"
    "    stderr is a terminal.\n"
    "\n"
    "ENVIRONMENT\n"
    "    HG_CP_KEY            the key, without --key-file\n"
    "\n"
    "EXIT STATUS\n"
    "    0 the file is there, 1 it is not, 2 wrong command line, 128+N ended by signal N,\n"
    "    which is how --listen ends\n"
    "\n"
    "EXAMPLES\n"
    "    hg_cp big.dat /data/\n"
    "    hg_cp --listen --init na+sm --dir /data --address-file /tmp/addr &\n"
    "    hg_cp --init na+sm --to \"$(cat /tmp/addr)\" big.dat\n";

enum option_id {
    OPTION_LISTEN = TOOL_OPTION_FIRST,
    OPTION_INIT,
    OPTION_TO,
    OPTION_DIR,
    OPTION_ADDRESS_FILE,
    OPTION_ADDRESS_FD,
    OPTION_DEPTH,
    OPTION_BLOCK_SIZE,
    OPTION_PART_SIZE,
    OPTION_TIMEOUT,
    OPTION_FORCE,
    OPTION_SYNC,
    OPTION_KEY_FILE,
    OPTION_ENCRYPT,
    OPTION_QUIET
};

static const struct option long_options[] = {
    {"listen", no_argument, NULL, OPTION_LISTEN},
    {"init", required_argument, NULL, OPTION_INIT},
    {"to", required_argument, NULL, OPTION_TO},
    {"dir", required_argument, NULL, OPTION_DIR},
    {"address-file", required_argument, NULL, OPTION_ADDRESS_FILE},
    {"address-fd", required_argument, NULL, OPTION_ADDRESS_FD},
    {"depth", required_argument, NULL, OPTION_DEPTH},
    {"block-size", required_argument, NULL, OPTION_BLOCK_SIZE},
    {"part-size", required_argument, NULL, OPTION_PART_SIZE},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"force", no_argument, NULL, OPTION_FORCE},
    {"sync", no_argument, NULL, OPTION_SYNC},
    {"key-file", required_argument, NULL, OPTION_KEY_FILE},
    {"encrypt", no_argument, NULL, OPTION_ENCRYPT},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"help", no_argument, NULL, TOOL_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static bool option_apply(void *settings, int id, const char *value);
static bool options_finish(void *settings, int count, char *const arguments[]);

bool cp_options_parse(int argc, char *argv[], struct cp_options *options, int *exit_code)
{
    static const struct tool_options command_line = {help_text, long_options, option_apply,
                                                     options_finish};

    memset(options, 0, sizeof(*options));
    options->init = "na+sm";
    options->dir = ".";
    options->address_fd = -1;
    options->depth = 8;
    options->block_size = UINT64_C(1) << 20;
    options->part_size = UINT64_C(64) << 20;
    options->timeout = 60;
    return tool_options_parse(&command_line, argc, argv, options, exit_code);
}

static bool option_apply(void *settings, int id, const char *value)
{
    struct cp_options *options = settings;
    unsigned int fd;

    switch (id) {
    case OPTION_LISTEN:
        options->listen = true;
        return true;
    case OPTION_INIT:
        options->init = value;
        return true;
    case OPTION_TO:
        options->to = value;
        return true;
    case OPTION_DIR:
        options->dir = value;
        return true;
    case OPTION_ADDRESS_FILE:
        options->address_file = value;
        return true;
    case OPTION_DEPTH:
        return tool_parse_uint("--depth", value, 1, CP_DEPTH_MAX, &options->depth);
    case OPTION_BLOCK_SIZE:
        return tool_parse_size("--block-size", value, 4096, CP_BLOCK_MAX, &options->block_size);
    case OPTION_PART_SIZE:
        return tool_parse_size("--part-size", value, 4096, CP_PART_MAX, &options->part_size);
    case OPTION_TIMEOUT:
        return tool_parse_seconds("--timeout", value, 0.1, 86400, &options->timeout);
    case OPTION_FORCE:
        options->force = true;
        return true;
    case OPTION_SYNC:
        options->sync = true;
        return true;
    case OPTION_KEY_FILE:
        options->key_file = value;
        return true;
    case OPTION_ENCRYPT:
        options->encrypt = true;
        return true;
    case OPTION_QUIET:
        options->quiet = true;
        return true;
    default: /* used between hg_cp and its own target */
        if (!tool_parse_uint("--address-fd", value, 0, 1U << 20, &fd))
            return false;
        options->address_fd = (int) fd;
        return true;
    }
}

static bool options_finish(void *settings, int count, char *const arguments[])
{
    struct cp_options *options = settings;
    uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);

    if (options->part_size % page != 0) {
        tool_error("--part-size: has to be a multiple of the page size, %u", (unsigned int) page);
        return false;
    }
    if (options->listen && options->to != NULL) {
        tool_error("--listen and --to: only one of them is possible");
        return false;
    }
    if (options->listen && count > 0) {
        tool_error("'%s' is one argument too many for --listen", arguments[0]);
        return false;
    }
    if (!options->listen && (count < (options->to != NULL ? 1 : 2) || count > 2)) {
        tool_error(options->to != NULL ? "--to: name the file, and what it shall be called at most"
                                       : "name the file and what it shall become");
        return false;
    }
    options->source = count > 0 ? arguments[0] : NULL;
    options->name = count > 1 ? arguments[1] : NULL;
    return true;
}
