/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_COUNT_H
#define TEST_COUNT_H

#include <dirent.h>
#include <stddef.h>

/*
 * Returns how many entries a directory has: descriptors in /proc/self/fd, including the one that
 * reads the directory, or threads in /proc/self/task. 0: the directory cannot be read.
 */
static inline int test_count(const char *path)
{
    DIR *directory = opendir(path);
    int count = 0;

    if (directory == NULL)
        return 0;
    while (readdir(directory) != NULL)
        count++;
    (void) closedir(directory);
    return count - 2; /* without "." and ".." */
}

#endif /* TEST_COUNT_H */
