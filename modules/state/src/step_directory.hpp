// SPDX-License-Identifier: Apache-2.0
// A folder of checkpoints. step_00000042/ is complete; step_00000042.partial/ is being written or was abandoned. Local.
#pragma once
#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <tw/state/index.hpp>
#include <vector>

namespace tw {

constexpr const char* index_name = "index.json";

/// directory/step_00000042
std::filesystem::path step_directory(const std::filesystem::path& directory, int64_t step);
/// directory/step_00000042.partial
std::filesystem::path partial_directory(const std::filesystem::path& directory, int64_t step);
/// The step in a folder name that step_directory() made, or -1.
int64_t step_of(const std::filesystem::path& step_directory);

/// The steps of complete checkpoints, ascending.
std::vector<int64_t> list_steps(const std::filesystem::path& directory);

/// Removes partial checkpoints of killed runs. Restores a complete one that such a run was replacing.
void remove_partials(const std::filesystem::path& directory);

/// Writes `bytes` bytes of `data` to `path` and syncs it, with direct I/O if the file system supports it.
/// @param data aligned and allocated to a multiple of direct_alignment. @param cancelled aborts with an Error.
void write_synced(const std::filesystem::path& path, const char* data, int64_t bytes, const std::stop_token& cancelled);
constexpr int64_t direct_alignment = 4096;

constexpr int64_t max_index_bytes = int64_t{1} << 32;

/// Completes the partial checkpoint of `index.step`, whose data files are written: writes its index and renames it, replacing an existing one.
/// @throws FileError
void publish(const std::filesystem::path& directory, const CheckpointIndex& index, const std::stop_token& cancelled);

/// Removes a complete checkpoint, renaming it first, so that neither a reader nor a killed process leaves half of one visible.
void remove_step(const std::filesystem::path& directory, int64_t step);

/// Removes all complete checkpoints up to `newest` except the last `keep` of them.
void prune(const std::filesystem::path& directory, int64_t newest, int64_t keep);

/// What is wrong with the data file of `rank`; empty if it is intact.
std::string damage(const std::filesystem::path& step_directory, int64_t rank, const StoredFile& file);

}  // namespace tw
