// SPDX-License-Identifier: Apache-2.0
// For modules whose state a process may hold only once. This header is not installed.
#pragma once
#include <array>
#include <cstdint>

namespace tw {

/// The mark of a module with such state: an ELF note, which the linker copies into every program and shared library that contains the module. The
/// module defines the mark in the source file that holds the state:
/// `[[gnu::used, gnu::aligned(4), gnu::section(".note.torchweave")]] const CopyMark copy_mark = {.module = {"mpi"}};`
struct CopyMark {
  uint32_t owner_bytes = 12;
  uint32_t module_bytes = 16;
  uint32_t type = 1;
  std::array<char, 12> owner = {"Torchweave"};
  std::array<char, 16> module;
};

/// Checks that this process has only one copy of the library. Two static copies, for instance in two plug-ins, cannot see each other's variables, but
/// each copy finds the marks of all others. @throws Error if there are two copies; the message names both files
void expect_only_copy();

}  // namespace tw
