#include "worker/symbols.h"
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct image { /* a file as it lies on disk */
    const uint8_t *bytes;
    size_t count;
};

static bool image_open(struct image *image, const char *path)
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool fine = fstat(fd, &facts) == 0 && facts.st_size >= (off_t)sizeof(Elf64_Ehdr);
    void *bytes = MAP_FAILED;
    if (fine) bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd); /* the mapping keeps the file */
    if (bytes == MAP_FAILED) return false;
    *image = (struct image){bytes, (size_t)facts.st_size};
    return true;
}

/* NULL: not wholly inside of the file. */
static const void *at(const struct image *image, uint64_t offset, uint64_t count)
{
    if (offset > image->count || count > image->count - offset) return NULL;
    return image->bytes + offset;
}

static bool find_in(const struct image *image, const Elf64_Shdr *section, const Elf64_Shdr *strings,
                    uint64_t address, char *ret_name, uint64_t *ret_offset)
{
    const uint8_t *symbols = at(image, section->sh_offset, section->sh_size);
    const char *texts = at(image, strings->sh_offset, strings->sh_size);
    if (symbols == NULL || texts == NULL || strings->sh_size == 0) return false;
    for (uint64_t i = 0; i < section->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols + i * sizeof symbol, sizeof symbol);
        bool covers = address >= symbol.st_value && address - symbol.st_value < symbol.st_size;
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !covers) continue;
        if (symbol.st_name >= strings->sh_size) return false;
        int room = (int)(strings->sh_size - symbol.st_name);
        (void)snprintf(ret_name, SYMBOL_BYTES / 2, "%.*s", room > 100 ? 100 : room,
                       texts + symbol.st_name);
        *ret_offset = address - symbol.st_value;
        return true;
    }
    return false;
}

static bool find(const struct image *image, uint64_t base, uint64_t address, char *ret_name,
                 uint64_t *ret_offset)
{
    Elf64_Ehdr header;
    memcpy(&header, image->bytes, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    uint64_t value = header.e_type == ET_DYN ? address - base : address;
    const uint8_t *sections =
        at(image, header.e_shoff, (uint64_t)header.e_shnum * sizeof(Elf64_Shdr));
    if (sections == NULL || header.e_shentsize != sizeof(Elf64_Shdr)) return false;
    for (uint32_t kind = SHT_SYMTAB; kind != 0; kind = kind == SHT_SYMTAB ? SHT_DYNSYM : 0)
        for (uint32_t i = 0; i < header.e_shnum; i++) {
            Elf64_Shdr section, strings;
            memcpy(&section, sections + i * sizeof section, sizeof section);
            if (section.sh_type != kind || section.sh_link >= header.e_shnum) continue;
            memcpy(&strings, sections + section.sh_link * sizeof strings, sizeof strings);
            if (find_in(image, &section, &strings, value, ret_name, ret_offset)) return true;
        }
    return false;
}

void symbol_name(const void *address, char ret_name[SYMBOL_BYTES])
{
    Dl_info info;
    struct image image;
    char name[SYMBOL_BYTES / 2];
    uint64_t offset = 0, place = (uint64_t)(uintptr_t)address;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        (void)snprintf(ret_name, SYMBOL_BYTES, "%p", address);
        return;
    }
    uint64_t base = (uint64_t)(uintptr_t)info.dli_fbase;
    const char *slash = strrchr(info.dli_fname, '/');
    const char *file = slash == NULL ? info.dli_fname : slash + 1;
    bool found = false;
    if (image_open(&image, info.dli_fname)) {
        found = find(&image, base, place, name, &offset);
        (void)munmap((void *)(uintptr_t)image.bytes, image.count); /* what mmap returned */
    }
    if (!found && info.dli_sname != NULL) {
        (void)snprintf(name, sizeof name, "%.100s", info.dli_sname);
        offset = place - (uint64_t)(uintptr_t)info.dli_saddr;
        found = true;
    }
    if (found)
        (void)snprintf(ret_name, SYMBOL_BYTES, "%s+0x%llx (%.80s)", name,
                       (unsigned long long)offset, file);
    else
        (void)snprintf(ret_name, SYMBOL_BYTES, "%.80s+0x%llx", file,
                       (unsigned long long)(place - base));
}
