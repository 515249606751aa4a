// SPDX-License-Identifier: Apache-2.0
// Exports a checkpoint's parameters and buffers as one file for other programs, from one process. replace_file() writes the file: either the new one
// is complete, or the previous one stays. A stack of layers is written as one tensor per layer, see NamedShard::layers. Throws Error if a data file
// of the checkpoint is missing or damaged, and FileError if the new file cannot be written.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <tw/state/checkpoint.hpp>
#include <vector>

namespace tw {

/// Writes a file that plain LibTorch loads with `torch::load(module, path)` into a module of the same structure. Tied parameters appear under each of
/// their names. Submodules without tensors come from the list "empty_submodules" in the checkpoint's metadata, if the metadata is JSON.
void export_for_libtorch(const Checkpoint& checkpoint, const std::filesystem::path& path);
/// The same with the names of submodules without tensors passed explicitly. @param empty_submodules the result of empty_submodules(). If a module has
/// numbered children, as a Sequential has, missing numbers are always filled in.
void export_for_libtorch(const Checkpoint& checkpoint, const std::filesystem::path& path, const std::vector<std::string>& empty_submodules);

/// Writes a file for safetensors in Python. Tied parameters appear under their first name; the metadata maps the other names to the first, as
/// Python's package does. Holds one tensor, or one layer of a stack, at a time. @param metadata further entries of the file's metadata
void export_safetensors(const Checkpoint& checkpoint, const std::filesystem::path& path, std::map<std::string, std::string> metadata = {});

}  // namespace tw
