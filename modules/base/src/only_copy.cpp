// SPDX-License-Identifier: Apache-2.0
#include <link.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/copy_mark.hpp>

namespace tw {
namespace {

/// Files that contain each module, by its name.
using Copies = std::map<std::string, std::vector<std::string>>;

std::string path_of(const dl_phdr_info& file) {
  if (*file.dlpi_name != '\0') return file.dlpi_name;
  std::error_code unreadable;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  return unreadable ? "the program" : program.string();
}

int find_marks(dl_phdr_info* file, size_t /*size*/, void* copies) {
  constexpr CopyMark any = {.module = {}};
  constexpr size_t owner_end = offsetof(CopyMark, module);
  for (const ElfW(Phdr) & segment : std::span(file->dlpi_phdr, file->dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const char*>(file->dlpi_addr + segment.p_vaddr);  // NOLINT(performance-no-int-to-ptr): as the linker has it
    for (size_t at = 0; at + sizeof(CopyMark) <= segment.p_memsz; at += alignof(CopyMark)) {
      if (std::memcmp(notes + at, &any, owner_end) != 0) continue;
      (*static_cast<Copies*>(copies))[notes + at + owner_end].push_back(path_of(*file));
    }
  }
  return 0;
}

}  // namespace

void expect_only_copy() {
  Copies copies;
  ::dl_iterate_phdr(&find_marks, &copies);
  for (const auto& [module, files] : copies) {
    if (files.size() < 2) continue;
    throw Error(concat("this process holds two copies of Torchweave, in ", files[0], " and in ", files[1],
                       ": link both with one shared library that contains Torchweave"));
  }
}

}  // namespace tw
