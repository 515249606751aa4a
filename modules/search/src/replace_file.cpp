// SPDX-License-Identifier: Apache-2.0
#include "replace_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file_descriptor.hpp>

namespace tw::search {

void replace_file(const std::filesystem::path& path, const std::function<void(const std::filesystem::path&)>& write) {
  const std::filesystem::path partial = concat(path.string(), ".partial", ::getpid());
  std::error_code code;
  try {
    write(partial);
    FileDescriptor(partial, O_RDONLY, "cannot be opened").sync();  // or a crash of the node could leave the name without the content
  } catch (...) {
    std::filesystem::remove(partial, code);
    throw;
  }
  std::filesystem::rename(partial, path, code);
  if (!code) return;
  std::error_code ignored;
  std::filesystem::remove(partial, ignored);
  throw FileError(path, 0, "cannot be replaced: " + code.message());
}

void replace_file(const std::filesystem::path& path, const std::string& content) {
  replace_file(path, [&](const std::filesystem::path& partial) {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file << content << std::flush;
    if (!file) throw FileError(partial, 0, "cannot be written");
  });
}

}  // namespace tw::search
