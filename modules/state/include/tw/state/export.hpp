// SPDX-License-Identifier: Apache-2.0
// Exports a checkpoint's parameters and buffers as one file for other programs. One process. replace_file() writes the file:
// it is complete, or the previous one stays. Throws FileError, and Error where a checksum shows that the checkpoint is damaged.
#pragma once
#include <filesystem>
#include <string>
#include <tw/state/checkpoint.hpp>
#include <vector>

namespace tw {

/// For `torch::load(module, path)` of plain LibTorch, into a module of the same structure. Tied parameters appear under each of their names.
/// Submodules without tensors are those that the checkpoint's metadata lists, if it is JSON with a list "empty_submodules".
void export_for_libtorch(const Checkpoint& checkpoint, const std::filesystem::path& path);
/// @param empty_submodules as empty_submodules() returns them. Missing numbers between children (of a Sequential) are filled in any case.
void export_for_libtorch(const Checkpoint& checkpoint, const std::filesystem::path& path, const std::vector<std::string>& empty_submodules);

/// For safetensors in Python. Tied parameters appear under their first name; the metadata maps the others to it, as Python's package has it.
void export_safetensors(const Checkpoint& checkpoint, const std::filesystem::path& path);

}  // namespace tw
