// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/safetensors.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <utility>

namespace tw {
namespace {

// Ordered by position in the file; empty tensors come before others there.
std::pair<int64_t, int64_t> place_of(const SafetensorsEntry& entry) { return {entry.offset, entry.bytes}; }

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  write_safetensors(path, specs_of(tensors), [&](size_t index) { return tensors[index].tensor; }, metadata);
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                       const std::function<at::Tensor(size_t index)>& tensor, const std::map<std::string, std::string>& metadata) {
  const SafetensorsPlan plan = plan_safetensors(tensors, metadata);
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place_of(plan.entries[a]) < place_of(plan.entries[b]); });
  replace_file(path, [&](const std::filesystem::path& partial) {
    FileDescriptor file(partial, O_WRONLY | O_CREAT | O_TRUNC, "cannot be written");
    file.write(plan.header.data(), plan.header.size());
    for (const size_t i : order) {
      const at::Tensor here = on_cpu(tensor(i).detach(), concat("write_safetensors() of ", tensors[i].name));
      TW_EXPECTS(here.sizes() == tensors[i].shape && here.scalar_type() == tensors[i].dtype, "expected ", tensors[i].describe(), ", got ",
                 dtype_name(here.scalar_type()), " ", shape_text(here.sizes().vec()));
      const at::Tensor contiguous = here.contiguous().resolve_conj().resolve_neg();
      file.write(contiguous.const_data_ptr(), static_cast<size_t>(plan.entries[i].bytes));
    }
  });
}

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : file_(std::move(path)) {
  SafetensorsContents contents = parse_safetensors(bytes(), file_.path());
  metadata_ = std::move(contents.metadata);
  for (SafetensorsEntry& entry : contents.entries) entries_.emplace(entry.spec.name, std::move(entry));
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<const SafetensorsEntry*> order;
  for (const auto& [name, entry] : entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  std::vector<std::string> names;
  for (const auto* entry : order) names.push_back(entry->spec.name);
  return names;
}

const SafetensorsEntry& SafetensorsFile::find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw FileError(path(), 0, "there is no tensor " + name);
  const std::string& unsupported = found->second.unsupported_dtype;
  if (!unsupported.empty()) throw FileError(path(), found->second.offset, concat("tensor ", name, ": dtype \"", unsupported, "\" is not supported"));
  return found->second;
}

const TensorSpec& SafetensorsFile::spec(const std::string& name) const& { return find(name).spec; }

// The tensor in place; a copy if it is not aligned to its elements.
at::Tensor SafetensorsFile::view(const SafetensorsEntry& entry) const {
  const char* begin = bytes().data() + entry.offset;
  const auto options = at::TensorOptions().dtype(entry.spec.dtype);
  if (entry.spec.dtype == c10::ScalarType::Bool) {
    const char* wrong = std::find_if(begin, begin + entry.bytes, [](char value) { return value != 0 && value != 1; });
    if (wrong != begin + entry.bytes) throw FileError(path(), wrong - bytes().data(), "tensor " + entry.spec.name + ": a bool is neither 0 nor 1");
  }
  if (reinterpret_cast<uintptr_t>(begin) % c10::elementSize(entry.spec.dtype) == 0) {
    return at::from_blob(const_cast<char*>(begin), entry.spec.shape, options);
  }
  at::Tensor copy = at::empty(entry.spec.shape, options);
  if (entry.bytes > 0) std::memcpy(copy.data_ptr(), begin, static_cast<size_t>(entry.bytes));
  return copy;
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const { return view(find(name)).clone(); }

void SafetensorsFile::read_into(const std::string& name, const std::vector<int64_t>& offsets, const at::Tensor& destination) const {
  const SafetensorsEntry& entry = find(name);
  const auto dimensions = static_cast<int64_t>(entry.spec.shape.size());
  TW_EXPECTS(destination.scalar_type() == entry.spec.dtype, path().string(), " holds ", entry.spec.describe(), ", which cannot be read as ",
             dtype_name(destination.scalar_type()));
  TW_EXPECTS(destination.dim() == dimensions && static_cast<int64_t>(offsets.size()) == dimensions, path().string(), " holds ", entry.spec.describe(),
             ", which has no part ", shape_text(destination.sizes().vec()), " at ", shape_text(offsets));
  at::Tensor part = view(entry);
  for (int64_t i = 0; i < dimensions; ++i) {
    const int64_t begin = offsets[static_cast<size_t>(i)];
    const int64_t length = destination.size(i);
    TW_EXPECTS(begin >= 0 && length <= part.size(i) && begin <= part.size(i) - length, path().string(), " holds ", entry.spec.describe(),
               ", which has no part ", shape_text(destination.sizes().vec()), " at ", shape_text(offsets));
    part = part.narrow(i, begin, length);
  }
  destination.detach().copy_(part);
}

}  // namespace tw
