// SPDX-License-Identifier: Apache-2.0
#include "npy_tensor.hpp"

#include <zip.h>

#include <memory>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/data/npz.hpp>

namespace tw {
namespace {

struct Discard {
  void operator()(zip_t* archive) const noexcept { zip_discard(archive); }
  void operator()(zip_file_t* entry) const noexcept { zip_fclose(entry); }
};

using Archive = std::unique_ptr<zip_t, Discard>;
using Entry = std::unique_ptr<zip_file_t, Discard>;

Archive open_archive(const std::filesystem::path& path) {
  int code = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code);
  if (archive != nullptr) return Archive(archive);
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string problem = concat("cannot be opened as a ZIP archive: ", zip_error_strerror(&error));
  zip_error_fini(&error);
  throw FileError(path, 0, problem);
}

std::string read_entry(const Archive& archive, const zip_stat_t& status, const std::filesystem::path& path) {
  // Checked before memory is asked for: deflate never shrinks by more than 1032:1 (zlib's technical details).
  if (status.size / 1032 > status.comp_size) throw FileError(path, 0, "says that it is larger than its compressed content can be");
  const Entry entry(zip_fopen_index(archive.get(), status.index, 0));
  if (entry == nullptr) throw FileError(path, 0, concat("cannot be read: ", zip_strerror(archive.get())));
  std::string content(status.size, '\0');
  size_t filled = 0;
  char behind = 0;
  for (;;) {  // up to and with the end, where the checksum is compared
    const bool full = filled == content.size();
    const zip_int64_t got = zip_fread(entry.get(), full ? &behind : content.data() + filled, full ? 1 : content.size() - filled);
    if (got < 0) throw FileError(path, static_cast<int64_t>(filled), concat("damaged: ", zip_file_strerror(entry.get())));
    if (got == 0) break;
    if (full) throw FileError(path, static_cast<int64_t>(filled), "goes on behind the size that the archive says");
    filled += static_cast<size_t>(got);
  }
  content.resize(filled);
  return content;
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> read_npz(const std::filesystem::path& path) {
  const Archive archive = open_archive(path);
  std::vector<std::pair<std::string, at::Tensor>> arrays;
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    zip_stat_t status;
    constexpr zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_INDEX | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &status) != 0 || (status.valid & needed) != needed) {
      throw FileError(path, 0, concat("entry ", i, " of the archive cannot be read: ", zip_strerror(archive.get())));
    }
    std::string name = status.name;
    const auto inside = path / std::filesystem::path(name).relative_path();
    at::Tensor array = tensor_from_npy(read_entry(archive, status, inside), inside);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    arrays.emplace_back(std::move(name), std::move(array));
  }
  return arrays;
}

}  // namespace tw
