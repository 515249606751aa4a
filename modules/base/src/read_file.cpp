// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file_descriptor.hpp>
#include <tw/base/read_file.hpp>

namespace tw {

std::string read_file(const std::filesystem::path& path, int64_t most) {
  constexpr size_t chunk_bytes = size_t{1} << 16;
  const FileDescriptor file(path, O_RDONLY, "cannot be opened");
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) throw FileError(path, 0, concat("cannot be examined: ", std::strerror(errno)));
  if (S_ISDIR(info.st_mode)) throw FileError(path, 0, "is a folder, not a file");
  const auto expect_small = [&](int64_t bytes) {
    if (bytes > most) throw FileError(path, 0, concat("has ", bytes, " bytes, more than ", most));
  };
  expect_small(info.st_size);
  std::string content;
  content.reserve(static_cast<size_t>(info.st_size));
  while (true) {  // until the end of the file: a pipe has no size
    const size_t at = content.size();
    content.resize(std::max(at + 1, std::min(content.capacity(), at + chunk_bytes)));
    const ssize_t got = ::read(file.get(), content.data() + at, content.size() - at);
    const int code = errno;
    content.resize(at + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && code == EINTR) continue;
    if (got < 0) throw FileError(path, static_cast<int64_t>(at), concat("cannot be read: ", std::strerror(code)));
    if (got == 0) return content;
    expect_small(static_cast<int64_t>(content.size()));
  }
}

}  // namespace tw
