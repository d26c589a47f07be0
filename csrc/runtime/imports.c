/* SPDX-License-Identifier: MIT
 *
 * Replaces functions that one loaded library imports, by writing other addresses into that
 * library's own tables. All other libraries are unchanged. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "rkr.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if UINTPTR_MAX > UINT32_MAX
#define SYMBOL_OF ELF64_R_SYM
#define TYPE_OF ELF64_R_TYPE
#else
#define SYMBOL_OF ELF32_R_SYM
#define TYPE_OF ELF32_R_TYPE
#endif

/* Relocations that fill an entry of a table of addresses. */
#if defined(__aarch64__)
#define IS_ADDRESS(type) ((type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_JUMP_SLOT)
#elif defined(__arm__)
#define IS_ADDRESS(type) ((type) == R_ARM_GLOB_DAT || (type) == R_ARM_JUMP_SLOT)
#elif defined(__x86_64__)
#define IS_ADDRESS(type) ((type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_JUMP_SLOT)
#elif defined(__i386__)
#define IS_ADDRESS(type) ((type) == R_386_GLOB_DAT || (type) == R_386_JMP_SLOT)
#endif

/* A library and its replacements. */
typedef struct {
    uintptr_t inside; /* any address of its code */
    const rkr_import *imports;
    size_t n_imports;
    size_t n_replaced;
    /* From its headers: address, names, and the pages that became read-only after relocation. */
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *names;
    size_t names_bytes;
    uintptr_t frozen_begin, frozen_end;
} target;

static void replace_at(target *library, uintptr_t slot, void (*function)(void)) {
    const uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)(slot & ~(page_bytes - 1));
    const int is_frozen = slot >= library->frozen_begin && slot < library->frozen_end;
    if (is_frozen && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) {
        return;
    }
    /* Atomic, because another thread may be calling through it. */
    __atomic_store_n((uintptr_t *)slot, (uintptr_t)function, __ATOMIC_RELEASE);
    if (is_frozen) {
        mprotect(page, page_bytes, PROT_READ);
    }
    library->n_replaced++;
}

/* Go through one table of relocations, whose entries all begin with an ElfW(Rel). */
static void replace_in(target *library, uintptr_t table, size_t bytes, size_t entry_bytes) {
    for (size_t at = 0; at + entry_bytes <= bytes; at += entry_bytes) {
        const ElfW(Rel) *entry = (const ElfW(Rel) *)(table + at);
        if (!IS_ADDRESS(TYPE_OF(entry->r_info))) {
            continue;
        }
        const size_t name = library->symbols[SYMBOL_OF(entry->r_info)].st_name;
        for (size_t i = 0; i < library->n_imports && name < library->names_bytes; i++) {
            if (strcmp(library->names + name, library->imports[i].name) == 0) {
                replace_at(library, library->base + entry->r_offset, library->imports[i].function);
            }
        }
    }
}

/* Return an address of the dynamic section, which some linkers leave relative to the library. */
static uintptr_t absolute(const target *library, ElfW(Addr) value) {
    return value < library->base ? library->base + value : value;
}

static void replace_all(target *library, const ElfW(Dyn) * dynamic) {
    uintptr_t jumps = 0, addresses = 0;
    size_t jumps_bytes = 0, addresses_bytes = 0;
    size_t jump_bytes = sizeof(ElfW(Rel)), address_bytes = sizeof(ElfW(Rel));
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        const ElfW(Addr) value = dynamic->d_un.d_ptr;
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            library->symbols = (const ElfW(Sym) *)absolute(library, value);
            break;
        case DT_STRTAB:
            library->names = (const char *)absolute(library, value);
            break;
        case DT_STRSZ:
            library->names_bytes = (size_t)value;
            break;
        case DT_JMPREL:
            jumps = absolute(library, value);
            break;
        case DT_PLTRELSZ:
            jumps_bytes = (size_t)value;
            break;
        case DT_PLTREL:
            jump_bytes = value == DT_RELA ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel));
            break;
        case DT_RELA:
            address_bytes = sizeof(ElfW(Rela));
            addresses = absolute(library, value);
            break;
        case DT_REL:
            addresses = absolute(library, value);
            break;
        case DT_RELASZ:
        case DT_RELSZ:
            addresses_bytes = (size_t)value;
            break;
        default:
            break;
        }
    }
    if (library->symbols != NULL && library->names != NULL) {
        replace_in(library, jumps, jumps_bytes, jump_bytes);
        replace_in(library, addresses, addresses_bytes, address_bytes);
    }
}

/* For each library of the process: look whether it is the one, and do it then. */
static int visit(struct dl_phdr_info *info, size_t info_bytes, void *argument) {
    (void)info_bytes;
    target *library = argument;
    const uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    const ElfW(Dyn) *dynamic = NULL;
    int is_inside = 0;
    library->base = (uintptr_t)info->dlpi_addr;
    library->frozen_begin = library->frozen_end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const uintptr_t begin = library->base + header->p_vaddr;
        if (header->p_type == PT_LOAD && library->inside - begin < header->p_memsz) {
            is_inside = 1;
        } else if (header->p_type == PT_DYNAMIC) {
            dynamic = (const ElfW(Dyn) *)begin;
        } else if (header->p_type == PT_GNU_RELRO) { /* as linkers round it */
            library->frozen_begin = begin & ~(page_bytes - 1);
            library->frozen_end = (begin + header->p_memsz) & ~(page_bytes - 1);
        }
    }
    if (is_inside && dynamic != NULL) {
        replace_all(library, dynamic);
    }
    return is_inside;
}

size_t rkr_replace_imports(const void *inside, const rkr_import imports[], size_t n_imports) {
    target library = {.inside = (uintptr_t)inside, .imports = imports, .n_imports = n_imports};
    dl_iterate_phdr(visit, &library);
    return library.n_replaced;
}
