// SPDX-License-Identifier: Apache-2.0
// For modules with state that a process can have only once. Not installed.
#pragma once
#include <array>
#include <cstdint>

namespace tw {

/// An ELF note, which the linker copies into every program and shared library that contains its module. Such a module defines one in the source file
/// that holds the state: `[[gnu::used, gnu::aligned(4), gnu::section(".note.torchweave")]] const CopyMark copy_mark = {.module = {"mpi"}};`
struct CopyMark {
  uint32_t owner_bytes = 12;
  uint32_t module_bytes = 16;
  uint32_t type = 1;
  std::array<char, 12> owner = {"Torchweave"};
  std::array<char, 16> module;
};

/// Checks that this process has only one copy of the library. Two static copies, for instance in two plug-ins, cannot see each other's variables, but
/// each finds the marks of all copies. @throws Error that names both files if there are two
void expect_only_copy();

}  // namespace tw
