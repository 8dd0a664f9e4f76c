/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a shared object by its section headers; every offset is checked. */

#include "na_conformance/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct elf_image {
    const uint8_t *bytes;
    uint64_t size;
    const ElfW(Shdr) * sections;
    uint64_t count;
};

static const void *image_at(const struct elf_image *image, uint64_t offset, uint64_t size);
static bool image_open(struct elf_image *image);
static const char *image_string(const struct elf_image *image, const ElfW(Shdr) * strings,
                                uint64_t offset);
static void read_symbols(const struct elf_image *image, const ElfW(Shdr) * section,
                         conf_elf_fn function, void *arg);
static void read_needed(const struct elf_image *image, const ElfW(Shdr) * section,
                        conf_elf_fn function, void *arg);

bool conf_elf_read(const char *path, conf_elf_fn function, void *arg, char *reason, size_t size)
{
    struct elf_image image = {0};
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *map = MAP_FAILED;
    bool good = false;

    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 0)
        map = mmap(NULL, (size_t) info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        (void) close(fd);
    if (map == MAP_FAILED) {
        (void) snprintf(reason, size, "cannot be read: %s", strerror(errno));
        return false;
    }
    image.bytes = map;
    image.size = (uint64_t) info.st_size;
    good = image_open(&image);
    if (!good)
        (void) snprintf(reason, size, "is not a shared object of this machine");
    for (uint64_t i = 0; good && i < image.count; i++) {
        if (image.sections[i].sh_type == SHT_DYNSYM)
            read_symbols(&image, &image.sections[i], function, arg);
        if (image.sections[i].sh_type == SHT_DYNAMIC)
            read_needed(&image, &image.sections[i], function, arg);
    }
    (void) munmap(map, (size_t) info.st_size);
    return good;
}

static const void *image_at(const struct elf_image *image, uint64_t offset, uint64_t size)
{
    return offset <= image->size && size <= image->size - offset ? image->bytes + offset : NULL;
}

static bool image_open(struct elf_image *image)
{
    const ElfW(Ehdr) *header = image_at(image, 0, sizeof(*header));

    if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        header->e_type != ET_DYN || header->e_shentsize != sizeof(ElfW(Shdr)))
        return false;
    image->count = header->e_shnum;
    image->sections = image_at(image, header->e_shoff, image->count * sizeof(ElfW(Shdr)));
    return image->sections != NULL;
}

static const char *image_string(const struct elf_image *image, const ElfW(Shdr) * strings,
                                uint64_t offset)
{
    const char *text = image_at(image, strings->sh_offset, strings->sh_size);

    if (text == NULL || offset >= strings->sh_size ||
        memchr(text + offset, '\0', strings->sh_size - offset) == NULL)
        return "";
    return text + offset;
}

static void read_symbols(const struct elf_image *image, const ElfW(Shdr) * section,
                         conf_elf_fn function, void *arg)
{
    const uint64_t count = section->sh_size / sizeof(ElfW(Sym));
    const ElfW(Sym) *symbols = image_at(image, section->sh_offset, section->sh_size);

    if (symbols == NULL || section->sh_link >= image->count)
        return;
    for (uint64_t i = 1; i < count; i++)
        if (symbols[i].st_shndx != SHN_ABS) /* SHN_ABS: the name of a symbol version */
            function(arg,
                     image_string(image, &image->sections[section->sh_link], symbols[i].st_name),
                     symbols[i].st_shndx != SHN_UNDEF, false);
}

static void read_needed(const struct elf_image *image, const ElfW(Shdr) * section,
                        conf_elf_fn function, void *arg)
{
    const uint64_t count = section->sh_size / sizeof(ElfW(Dyn));
    const ElfW(Dyn) *entries = image_at(image, section->sh_offset, section->sh_size);

    if (entries == NULL || section->sh_link >= image->count)
        return;
    for (uint64_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++)
        if (entries[i].d_tag == DT_NEEDED)
            function(arg,
                     image_string(image, &image->sections[section->sh_link], entries[i].d_un.d_val),
                     false, true);
}
