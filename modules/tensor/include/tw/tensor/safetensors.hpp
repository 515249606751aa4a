// SPDX-License-Identifier: Apache-2.0
// Files in the safetensors format: 8 bytes of header length, a JSON header, the tensors' bytes; all little-endian.
// Ref: https://github.com/huggingface/safetensors, "Format".
//
// dtypes: BOOL U8 I8 I16 I32 I64 U16 U32 U64 F8_E5M2 F8_E4M3 F16 BF16 F32 F64 C64. Tensors of other dtypes cannot be read; the rest of their file
// can. The format has no complex128: such a tensor is stored as F64 with a trailing dimension of 2. The metadata lists its name under
// "torchweave.complex128" (a JSON array), so that it is read back as complex128.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tw/base/file.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// A tensor and where its bytes lie.
struct SafetensorsEntry {
  TensorSpec spec;
  int64_t offset = 0;  ///< bytes from the start of the file
  int64_t bytes = 0;
  std::string unsupported_dtype = {};  ///< the file's name for the dtype if it is unsupported (spec.dtype is then Undefined); otherwise empty
};

/// The layout of a file to be written: the header's bytes, and the place of each tensor after it.
struct SafetensorsPlan {
  std::string header;                     ///< length, JSON and padding; a multiple of 64 bytes
  std::vector<SafetensorsEntry> entries;  ///< in the order of the tensors passed to plan_safetensors(); each aligned to its element size
  int64_t file_bytes = 0;
};

/// Plans a file that holds `tensors`. Pure. @throws ContractError for names that are not UTF-8, repeated or "__metadata__", for metadata that is not
/// UTF-8, and for dtypes that the format lacks.
SafetensorsPlan plan_safetensors(const std::vector<TensorSpec>& tensors, const std::map<std::string, std::string>& metadata = {});

/// What a file holds.
struct SafetensorsContents {
  std::vector<SafetensorsEntry> entries;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Parses the header of a file, and does not read the tensors' bytes. Pure. @param file the bytes of the file. @param path for messages.
/// @throws FileError if the file is malformed: wrong lengths, invalid JSON, repeated names, wrong shapes, or tensors that overlap, leave gaps or do
/// not end at the end of the file.
SafetensorsContents parse_safetensors(std::string_view file, const std::filesystem::path& path);

/// Writes `tensors` to `path` with replace_file(), so that `path` holds either the whole new file or the previous one. Not collective.
/// @throws FileError; ContractError for tensors that are not dense, and as plan_safetensors() does.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});
/// The same for tensors that need not exist at the same time. @param tensor called once for each of `tensors`, in the order of the file; returns the
/// tensor with this index. @throws ContractError if it has another shape or dtype; also any exception of `tensor`
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                       const std::function<at::Tensor(size_t index)>& tensor, const std::map<std::string, std::string>& metadata = {});

/// A file that is mapped into memory for reading. It must not shrink while this object lives. Move-only.
class SafetensorsFile {
 public:
  /// @throws FileError when it cannot be opened, or is malformed.
  explicit SafetensorsFile(std::filesystem::path path);
  const std::filesystem::path& path() const noexcept { return file_.path(); }
  /// Names in the order of the tensors' bytes.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return entries_.contains(name); }
  const std::map<std::string, std::string>& metadata() const& noexcept { return metadata_; }
  std::map<std::string, std::string> metadata() && noexcept { return std::move(metadata_); }
  /// The file's bytes.
  std::string_view bytes() const& noexcept { return file_.content(); }
  std::string_view bytes() && = delete;

  // The functions below throw FileError if there is no tensor of that name, or if its dtype is not supported. Those that read its elements also throw
  // FileError for a bool that is neither 0 nor 1.

  const TensorSpec& spec(const std::string& name) const&;
  TensorSpec spec(const std::string& name) && { return spec(name); }
  /// A copy of the tensor.
  at::Tensor tensor(const std::string& name) const;
  /// Fills `destination` with the part of the tensor that begins at `offsets` and has the shape of `destination`. @param destination has the tensor's
  /// dtype.
  /// @throws ContractError if the part exceeds the tensor, or the dtype differs.
  void read_into(const std::string& name, const std::vector<int64_t>& offsets, const at::Tensor& destination) const;

 private:
  const SafetensorsEntry& find(const std::string& name) const;
  at::Tensor view(const SafetensorsEntry& entry) const;

  MappedFile file_;
  std::map<std::string, SafetensorsEntry, std::less<>> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace tw
