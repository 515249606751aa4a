// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>

struct gzFile_s;  // NOLINT(readability-identifier-naming): zlib's

namespace tw {

/// Reads a file front to back, uncompressing it if it is gzip. Errors name the file and the offset in the uncompressed content.
class GzipReader {
 public:
  /// @throws FileError when the file cannot be opened.
  explicit GzipReader(std::filesystem::path path);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Reads exactly `bytes` into `out`. @throws FileError when the file ends before, or is damaged.
  void read(void* out, int64_t bytes);
  /// @throws FileError when anything follows.
  void expect_end();
  /// @throws FileError at the present offset.
  [[noreturn]] void fail(const char* problem) const;

 private:
  int64_t read_some(void* out, int64_t bytes);

  std::filesystem::path path_;
  gzFile_s* file_;
  int64_t offset_ = 0;
};

}  // namespace tw
