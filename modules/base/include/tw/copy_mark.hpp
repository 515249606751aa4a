// SPDX-License-Identifier: Apache-2.0
// For modules with state that a process can have only once. Not installed.
#pragma once
#include <array>
#include <cstdint>

namespace tw {

/// An ELF note, which the linker copies into every program and shared library that contains its module. A module has one, in the source file with
/// the state: `[[gnu::used, gnu::aligned(4), gnu::section(".note.torchweave")]] const CopyMark copy_mark = {.module = {"mpi"}};`
struct CopyMark {
  uint32_t owner_bytes = 12;
  uint32_t module_bytes = 16;
  uint32_t type = 1;
  std::array<char, 12> owner = {"Torchweave"};
  std::array<char, 16> module;
};

/// Two static copies of the library in one process, in two plug-ins for instance, would each believe to be the only one. They do not see each other's
/// variables, but each finds the marks of all. @throws Error that names both files
void expect_only_copy();

}  // namespace tw
