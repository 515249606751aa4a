// SPDX-License-Identifier: Apache-2.0
// Opens, maps, reads and replaces files. Every error is a FileError that names the path.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

/// `path` in a form that names the same file after chdir(); an empty path stays empty.
/// For code that stores a path for later use.
inline std::filesystem::path absolute_path(const std::filesystem::path& path) { return path.empty() ? path : std::filesystem::absolute(path); }

/// An open file or folder; the destructor closes it.
class FileDescriptor {
 public:
  /// @param flags as for open(2); O_CLOEXEC is added. @param problem text for the error's message, such as "cannot be opened".
  /// @throws FileError with the system's reason.
  FileDescriptor(std::filesystem::path path, int flags, const char* problem);
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const noexcept { return fd_; }
  /// Writes `bytes` bytes, which follow those of the previous write. @throws FileError with the system's reason and the offset.
  void write(const void* data, size_t bytes);
  /// Returns once the content has been written to disk. @throws FileError
  void sync() const;

 private:
  std::filesystem::path path_;
  int fd_;
  int64_t written_ = 0;
};

/// A file's content as read-only memory; the operating system reads pages on access. The file must not shrink while mapped.
class MappedFile {
 public:
  /// @throws FileError if it cannot be opened or is not an ordinary file.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::string_view content() const& noexcept { return {data_, size_}; }
  std::string_view content() && = delete;

 private:
  std::filesystem::path path_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

/// The content of a file or a pipe. @throws FileError if it cannot be read, is a folder, or has more than `most` bytes.
std::string read_file(const std::filesystem::path& path, int64_t most = std::numeric_limits<int64_t>::max());

/// Calls `write` with the path of a temporary file next to `path`, and renames that file to `path` once it is complete and on disk. Readers of `path`
/// see either the old or the new content. If `path` is a symbolic link, the link stays and its target is replaced. Devices, pipes and files in /dev,
/// such as /dev/stdout, are written in place. Use this function for every file that is written in one go.
/// @throws FileError if the file cannot be replaced, and any exception of `write`; a FileError about the temporary file then names `path` instead
void replace_file(const std::filesystem::path& path, const std::function<void(const std::filesystem::path&)>& write);

void replace_file(const std::filesystem::path& path, const std::string& content);

/// Removes the temporary files of all replace_file() calls for `path`, even of calls in progress. Use it for files that killed processes have left.
/// @return the files that could not be removed, with reasons
std::vector<std::string> remove_partials_of(const std::filesystem::path& path);

}  // namespace tw
