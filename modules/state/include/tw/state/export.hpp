// SPDX-License-Identifier: Apache-2.0
// Exports a checkpoint's parameters and buffers as one file for other programs, from one process. The file is written by replace_file(): either the
// new file is complete, or the previous one stays. Throws FileError, and Error if a checksum shows that the checkpoint is damaged. A stack of layers
// is written as one tensor per layer, see NamedShard::layers.
#pragma once
#include <filesystem>
#include <string>
#include <tw/state/checkpoint.hpp>
#include <vector>

namespace tw {

/// Writes a file for `torch::load(module, path)` of plain LibTorch, into a module of the same structure. Tied parameters appear under each of their
/// names. Submodules without tensors come from the list "empty_submodules" in the checkpoint's metadata, if that is JSON.
void export_for_libtorch(const Checkpoint& checkpoint, const std::filesystem::path& path);
/// The same with the names of submodules without tensors passed explicitly.
/// @param empty_submodules the result of empty_submodules(). Gaps in the numbers of children (of a Sequential) are always filled.
void export_for_libtorch(const Checkpoint& checkpoint, const std::filesystem::path& path, const std::vector<std::string>& empty_submodules);

/// Writes a file for safetensors in Python. Tied parameters appear under their first name; the metadata maps the other names to it, as Python's
/// package does.
void export_safetensors(const Checkpoint& checkpoint, const std::filesystem::path& path);

}  // namespace tw
