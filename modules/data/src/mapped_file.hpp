// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace tw {

/// A file's content as read-only memory; the operating system reads pages on access. The file must not shrink while mapped.
class MappedFile {
 public:
  /// @throws FileError if it cannot be opened or is not an ordinary file.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::string_view content() const noexcept { return {data_, size_}; }

 private:
  std::filesystem::path path_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tw
