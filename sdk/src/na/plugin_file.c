/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that no untrusted user can change a plugin's file, and that it is a complete shared object
 * for this machine. */

#include "na/plugin_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAM_HEADERS_MAX 512

#if defined(__x86_64__)
#    define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#    define OWN_MACHINE EM_AARCH64
#elif defined(__powerpc64__)
#    define OWN_MACHINE EM_PPC64
#elif defined(__s390x__)
#    define OWN_MACHINE EM_S390
#elif defined(__riscv)
#    define OWN_MACHINE EM_RISCV
#elif defined(__i386__)
#    define OWN_MACHINE EM_386
#else
#    define OWN_MACHINE EM_NONE /* not compared */
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#    define OWN_DATA ELFDATA2LSB
#else
#    define OWN_DATA ELFDATA2MSB
#endif
#define OWN_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)

static bool is_safe(const char *path, const struct stat *info, uint32_t core_owner, char *reason,
                    size_t size);
static bool header_is_loadable(int fd, uint64_t file_size, char *reason, size_t size);
static bool segments_are_complete(int fd, const ElfW(Ehdr) * header, uint64_t file_size,
                                  char *reason, size_t size);

bool na_plugin_file_is_safe(const char *path, uint32_t core_owner, char *reason, size_t size)
{
    char directory[PATH_MAX];
    struct stat info;
    char *slash;

    if (stat(path, &info) != 0) {
        (void) snprintf(reason, size, "cannot be examined: %s", strerror(errno));
        return false;
    }
    if (!S_ISREG(info.st_mode)) {
        (void) snprintf(reason, size, "is not a regular file");
        return false;
    }
    if (!is_safe(path, &info, core_owner, reason, size))
        return false;
    (void) snprintf(directory, sizeof(directory), "%s", path);
    slash = strrchr(directory, '/');
    if (slash == NULL)
        return true;
    *slash = '\0';
    return na_plugin_directory_is_safe(slash == directory ? "/" : directory, core_owner, reason,
                                       size);
}

bool na_plugin_directory_is_safe(const char *path, uint32_t core_owner, char *reason, size_t size)
{
    struct stat info;

    if (stat(path, &info) != 0) {
        (void) snprintf(reason, size, "directory %s cannot be examined: %s", path, strerror(errno));
        return false;
    }
    if (!S_ISDIR(info.st_mode)) {
        (void) snprintf(reason, size, "%s is not a directory", path);
        return false;
    }
    return is_safe(path, &info, core_owner, reason, size);
}

bool na_plugin_file_is_loadable(const char *path, char *reason, size_t size)
{
    struct stat info;
    bool loadable = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0 || fstat(fd, &info) != 0)
        (void) snprintf(reason, size, "cannot be read: %s", strerror(errno));
    else
        loadable = header_is_loadable(fd, (uint64_t) info.st_size, reason, size);
    if (fd >= 0)
        (void) close(fd);
    return loadable;
}

/*
 * A group whose id is the owner's user id is that user's private group, by the convention of
 * distributions. Directories further up need no check: a directory that an untrusted user puts in
 * place of this one has no trusted owner.
 */
static bool is_safe(const char *path, const struct stat *info, uint32_t core_owner, char *reason,
                    size_t size)
{
    if ((info->st_mode & S_IWOTH) != 0) {
        (void) snprintf(reason, size, "%s can be written to by everybody (mode %03o): chmod o-w it",
                        path, info->st_mode & 07777u);
        return false;
    }
    if ((info->st_mode & S_IWGRP) != 0 && info->st_gid != 0 && info->st_gid != info->st_uid) {
        (void) snprintf(reason, size, "%s can be written to by group %u (mode %03o): chmod g-w it",
                        path, (unsigned int) info->st_gid, info->st_mode & 07777u);
        return false;
    }
    if (info->st_uid != 0 && info->st_uid != geteuid() && info->st_uid != core_owner) {
        (void) snprintf(
            reason, size,
            "%s belongs to user %u, who is neither root, nor you, nor the owner of this "
            "library",
            path, (unsigned int) info->st_uid);
        return false;
    }
    return true;
}

static bool header_is_loadable(int fd, uint64_t file_size, char *reason, size_t size)
{
    ElfW(Ehdr) header;

    if (pread(fd, &header, sizeof(header), 0) != (ssize_t) sizeof(header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        (void) snprintf(reason, size, "is not a shared object: no ELF header");
        return false;
    }
    if (header.e_ident[EI_CLASS] != OWN_CLASS || header.e_ident[EI_DATA] != OWN_DATA ||
        (OWN_MACHINE != EM_NONE && header.e_machine != OWN_MACHINE)) {
        (void) snprintf(
            reason, size,
            "is built for another machine: ELF class %u, byte order %u, machine %u; this "
            "process has %u, %u, %u",
            header.e_ident[EI_CLASS], header.e_ident[EI_DATA], header.e_machine, OWN_CLASS,
            OWN_DATA, OWN_MACHINE);
        return false;
    }
    if (header.e_type != ET_DYN) {
        (void) snprintf(reason, size, "is not a shared object: ELF type %u", header.e_type);
        return false;
    }
    return segments_are_complete(fd, &header, file_size, reason, size);
}

/* Access to a mapped segment beyond the end of the file would raise SIGBUS. */
static bool segments_are_complete(int fd, const ElfW(Ehdr) * header, uint64_t file_size,
                                  char *reason, size_t size)
{
    if (header->e_phentsize != sizeof(ElfW(Phdr)) || header->e_phnum == 0 ||
        header->e_phnum > PROGRAM_HEADERS_MAX) {
        (void) snprintf(reason, size, "has a damaged ELF header: %u program headers of %u bytes",
                        header->e_phnum, header->e_phentsize);
        return false;
    }
    for (unsigned int i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) segment;
        uint64_t where = header->e_phoff + (uint64_t) i * sizeof(segment);

        if (where > INT64_MAX ||
            pread(fd, &segment, sizeof(segment), (off_t) where) != (ssize_t) sizeof(segment)) {
            (void) snprintf(reason, size, "is truncated: program header %u is missing", i);
            return false;
        }
        if (segment.p_offset > file_size || segment.p_filesz > file_size - segment.p_offset) {
            (void) snprintf(reason, size,
                            "is truncated: segment %u ends at byte %llu, the file at byte %llu", i,
                            (unsigned long long) (segment.p_offset + segment.p_filesz),
                            (unsigned long long) file_size);
            return false;
        }
    }
    return true;
}
