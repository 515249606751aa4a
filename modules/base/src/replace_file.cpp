// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/process.hpp>

namespace tw {
namespace {
constexpr const char* partial_suffix = ".partial";  // followed by process_identity(), in older versions by the process id

bool is_written_in_place(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  return kind == std::filesystem::file_type::character || kind == std::filesystem::file_type::fifo || path.parent_path() == "/dev" ||
         path.parent_path() == "/dev/fd";
}

/// The target of the symbolic links at `path`, which need not exist yet.
std::filesystem::path end_of_links(const std::filesystem::path& path) {
  constexpr int most = 40;  // as in Linux
  std::filesystem::path target = path;
  std::error_code failure;
  for (int links = 0; std::filesystem::is_symlink(target, failure); ++links) {
    if (links == most) throw FileError(path, 0, "cannot be replaced: too many symbolic links, or a cycle of them");
    target = target.parent_path() / std::filesystem::read_symlink(target, failure);  // an absolute target replaces the whole path
  }
  return target;
}

}  // namespace

void replace_file(const std::filesystem::path& path, const std::function<void(const std::filesystem::path&)>& write) {
  std::error_code ignored;
  if (is_written_in_place(path)) return write(path);
  const std::filesystem::path target = end_of_links(path);
  const std::filesystem::path partial = concat(target.string(), partial_suffix, process_identity());
  std::error_code code;
  try {
    write(partial);
    FileDescriptor(partial, O_RDONLY, "cannot be opened").sync();  // otherwise a crash of the node could leave the name without the content
  } catch (const FileError& error) {
    std::filesystem::remove(partial, code);
    if (error.path() != partial) throw;
    const std::string place = concat(partial.string(), " at byte ", error.offset(), ": ");
    throw FileError(path, error.offset(), std::string(error.what()).substr(place.size()));
  } catch (...) {
    std::filesystem::remove(partial, code);
    throw;
  }
  std::filesystem::rename(partial, target, code);
  if (!code) return;
  std::filesystem::remove(partial, ignored);
  throw FileError(path, 0, "cannot be replaced: " + code.message());
}

void replace_file(const std::filesystem::path& path, const std::string& content) {
  replace_file(path, [&](const std::filesystem::path& partial) {
    FileDescriptor(partial, O_WRONLY | O_CREAT | O_TRUNC, "cannot be written").write(content.data(), content.size());
  });
}

std::vector<std::string> remove_partials_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string begin = path.filename().string() + partial_suffix;
  std::vector<std::string> failures;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin)) continue;
    const size_t end_of_id = std::min(name.size(), name.find_first_not_of("0123456789", begin.size()));
    if (end_of_id == begin.size() || (end_of_id < name.size() && name[end_of_id] != '_')) continue;
    if (!std::filesystem::remove(entry.path(), code) && code) failures.push_back(concat(entry.path().string(), ": ", code.message()));
  }
  return failures;
}

}  // namespace tw
