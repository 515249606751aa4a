// SPDX-License-Identifier: Apache-2.0
#include "step_directory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/hash.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/numbers.hpp>
#include <tw/tensor/flat_buffer.hpp>
#include <tw/tensor/safetensors.hpp>
#include <utility>

namespace tw {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step_";
constexpr std::string_view partial_suffix = ".partial";
constexpr std::string_view replaced_suffix = ".replaced.partial";

[[noreturn]] void fail(const fs::path& path, int64_t offset, const char* what, int code) {
  throw FileError(path, offset, concat(what, ": ", std::strerror(code)));
}

void sync_directory(const fs::path& directory) { FileDescriptor(directory, O_RDONLY | O_DIRECTORY, "cannot be opened").sync(); }

// Best effort: a file system without direct I/O uses the page cache.
void set_direct(int fd, bool on) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0) ::fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}

bool is_direct(int fd) { return (::fcntl(fd, F_GETFL) & O_DIRECT) != 0; }

bool exchange(const fs::path& a, const fs::path& b) { return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0; }

}  // namespace

fs::path step_directory(const fs::path& directory, int64_t step) { return directory / concat(prefix, padded_text(step, 8)); }

fs::path partial_directory(const fs::path& directory, int64_t step) {
  fs::path path = step_directory(directory, step);
  path += partial_suffix;
  return path;
}

int64_t step_of(const fs::path& step_directory) {
  const std::string name = step_directory.filename().string();
  int64_t step = -1;
  if (!name.starts_with(prefix)) return -1;
  const auto read = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  return read.ec == std::errc() && read.ptr == name.data() + name.size() ? step : -1;
}

std::vector<int64_t> list_steps(const fs::path& directory) {
  std::vector<int64_t> steps;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    const int64_t step = step_of(entry.path());
    if (step >= 0 && entry.is_directory()) steps.push_back(step);
  }
  if (code) throw FileError(directory, 0, concat("cannot be listed: ", code.message()));
  std::sort(steps.begin(), steps.end());
  return steps;
}

void remove_partials(const fs::path& directory) {
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(partial_suffix)) left.push_back(entry.path());
  }
  for (const fs::path& path : left) {
    const std::string text = path.string();
    const fs::path complete = text.substr(0, text.size() - std::min(text.size(), replaced_suffix.size()));
    if (text.ends_with(replaced_suffix) && !fs::exists(complete)) {  // the job was killed while publish() replaced it
      fs::rename(path, complete);
    } else {
      fs::remove_all(path);
    }
  }
}

void write_synced(const fs::path& path, const char* data, int64_t bytes, const std::stop_token& cancelled) {
  constexpr int64_t chunk_bytes = int64_t{8} << 20;
  const FileDescriptor file(path, O_WRONLY | O_CREAT | O_TRUNC, "cannot be written");
  set_direct(file.get(), true);
  for (int64_t at = 0; at < bytes;) {
    if (cancelled.stop_requested()) throw FileError(path, at, "the checkpoint was dropped before it was complete");
    const bool direct = is_direct(file.get());
    const int64_t wanted = std::min(chunk_bytes, direct ? divide_up(bytes - at, direct_alignment) * direct_alignment : bytes - at);
    const ssize_t written = ::pwrite(file.get(), data + at, static_cast<size_t>(wanted), at);
    if (written < 0 && errno == EINTR) continue;
    if (direct && (written < 0 ? errno == EINVAL : written % direct_alignment != 0)) {
      set_direct(file.get(), false);
      continue;
    }
    if (written <= 0) fail(path, at, "cannot be written", written < 0 ? errno : ENOSPC);
    if (!direct) ::sync_file_range(file.get(), at, written, SYNC_FILE_RANGE_WRITE);  // start writeback now
    at += written;
  }
  if (::ftruncate(file.get(), bytes) != 0) fail(path, bytes, "cannot be truncated to its length", errno);
  file.sync();
}

void publish(const fs::path& directory, const CheckpointIndex& index, const std::stop_token& cancelled) {
  const fs::path partial = partial_directory(directory, index.step);
  const fs::path complete = step_directory(directory, index.step);
  const std::string text = to_text(index);
  const auto bytes = static_cast<int64_t>(text.size());
  const FlatBuffer aligned(std::max(bytes + direct_alignment, int64_t{2} << 20), c10::ScalarType::Byte);
  std::memcpy(aligned.storage().data_ptr(), text.data(), text.size());
  write_synced(partial / index_name, static_cast<const char*>(aligned.storage().const_data_ptr()), bytes, cancelled);
  sync_directory(partial);
  if (::rename(partial.c_str(), complete.c_str()) != 0) {
    const int code = errno;
    if (code != ENOTEMPTY && code != EEXIST) fail(partial, 0, "cannot be renamed", code);
    if (!exchange(partial, complete)) {  // file system without exchange: for a moment neither exists
      fs::path old = complete;
      old += replaced_suffix;
      if (::rename(complete.c_str(), old.c_str()) != 0) fail(complete, 0, "cannot be replaced", errno);
      if (::rename(partial.c_str(), complete.c_str()) != 0) fail(partial, 0, "cannot be renamed", errno);
    }
  }
  sync_directory(directory);
  remove_partials(directory);
}

void remove_step(const fs::path& directory, int64_t step) {
  const fs::path doomed = partial_directory(directory, step);
  fs::rename(step_directory(directory, step), doomed);
  fs::remove_all(doomed);
}

void prune(const fs::path& directory, int64_t newest, int64_t keep) {
  std::vector<int64_t> steps = list_steps(directory);
  std::erase_if(steps, [&](int64_t step) { return step > newest; });
  for (size_t i = 0; i + static_cast<size_t>(keep) < steps.size(); ++i) remove_step(directory, steps[i]);
}

std::string damage(const fs::path& step_directory, int64_t rank, const StoredFile& file) {
  const fs::path path = step_directory / file_name(rank);
  try {
    std::error_code code;
    const auto bytes = static_cast<int64_t>(fs::file_size(path, code));
    if (code) throw FileError(path, 0, concat("cannot be opened: ", code.message()));
    if (bytes != file.bytes) throw FileError(path, std::min(bytes, file.bytes), concat("has ", bytes, " bytes, but the index has ", file.bytes));
    const SafetensorsFile content(path);
    if (content_hash(content.bytes()) != file.checksum) throw FileError(path, 0, "is damaged: its checksum differs from the one in the index");
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

}  // namespace tw
