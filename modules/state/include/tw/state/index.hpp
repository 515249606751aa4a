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

/// index.json of a checkpoint: everything but the values.
struct CheckpointIndex {
  int64_t step = 0;
  std::string metadata;           ///< the caller's
  std::vector<StoredFile> files;  ///< one per rank that saved; number r is file_name(r)
  std::vector<StoredTensor> tensors;
};

/// "rank_0003.safetensors".
std::string file_name(int64_t rank);

/// The file's text: {"checksum": ..., "index": {...}}, where the checksum covers the bytes of the index.
std::string to_text(const CheckpointIndex& index);

/// The inverse of to_text(). @param path for messages. @throws FileError for malformed or contradictory content; detects any changed byte.
CheckpointIndex parse_index(std::string_view text, const std::filesystem::path& path);

/// The same for the value of "index" alone, without a check of the checksum.
CheckpointIndex parse_index_body(std::string_view json, const std::filesystem::path& path);

}  // namespace tw
