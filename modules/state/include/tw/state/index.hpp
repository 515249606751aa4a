// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <tw/state/layout.hpp>
#include <vector>

namespace tw {

/// A data file of a checkpoint.
struct StoredFile {
  int64_t bytes = 0;
  uint64_t checksum = 0;  ///< content_hash() of the whole file
};

/// The content of a checkpoint's index.json: everything except the tensors' values.
struct CheckpointIndex {
  int64_t step = 0;
  std::string metadata;           ///< as passed to CheckpointStore::save()
  std::vector<StoredFile> files;  ///< one per rank that saved; files[r] is called file_name(r)
  std::vector<StoredTensor> tensors;
};

/// The name of a rank's data file, such as "rank_0003.safetensors".
std::string file_name(int64_t rank);

/// The text of index.json: {"checksum": ..., "index": {...}}, where the checksum covers the bytes of the index.
std::string to_text(const CheckpointIndex& index);

/// The inverse of to_text(). Detects any changed byte. @param path for messages. @throws FileError for malformed or contradictory content.
CheckpointIndex parse_index(std::string_view text, const std::filesystem::path& path);

/// As parse_index(), but for the value of "index" alone, without its checksum.
CheckpointIndex parse_index_body(std::string_view json, const std::filesystem::path& path);

}  // namespace tw
