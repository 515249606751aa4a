// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file_descriptor.hpp>
#include <tw/base/replace_file.hpp>

namespace tw {
namespace {
constexpr const char* partial_suffix = ".partial";
}  // namespace

void replace_file(const std::filesystem::path& path, const std::function<void(const std::filesystem::path&)>& write) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  if (kind == std::filesystem::file_type::character || kind == std::filesystem::file_type::fifo) return write(path);
  const std::filesystem::path partial = concat(path.string(), partial_suffix, ::getpid());
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

std::vector<std::string> remove_partials_of(const std::filesystem::path& path) {
  std::vector<std::string> failures;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), code)) {
    if (!entry.path().filename().string().starts_with(path.filename().string() + partial_suffix)) continue;
    if (!std::filesystem::remove(entry.path(), code) && code) failures.push_back(concat(entry.path().string(), ": ", code.message()));
  }
  return failures;
}

}  // namespace tw
