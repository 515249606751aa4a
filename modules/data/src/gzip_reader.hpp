// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include <tw/base/file.hpp>

struct z_stream_s;  // NOLINT(readability-identifier-naming): zlib's

namespace tw {

/// Reads a file front to back; decompresses gzip with one or several members. Errors name the file and the offset in the uncompressed content.
class GzipReader {
 public:
  /// @throws FileError if the file cannot be opened.
  explicit GzipReader(std::filesystem::path path);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Reads exactly `bytes` into `out`. @throws FileError if the file ends early or is damaged.
  void read(void* out, int64_t bytes);
  /// @throws FileError if anything follows: more content, or bytes after the compressed stream.
  void expect_end();
  /// @throws FileError at the current offset.
  [[noreturn]] void fail(const char* problem) const;

 private:
  int64_t read_some(void* out, int64_t bytes);
  int64_t copy_some(void* out, int64_t bytes);
  int64_t inflate_some(void* out, int64_t bytes);

  MappedFile file_;
  std::string_view rest_;               // unread rest of the file
  std::unique_ptr<z_stream_s> stream_;  // null for a plain file
  bool in_member_ = true;               // inside a gzip member
  int64_t offset_ = 0;
};

}  // namespace tw
