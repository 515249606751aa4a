// SPDX-License-Identifier: Apache-2.0
#include <tw/state/export.hpp>

#include <fcntl.h>
#include <torch/serialize/output-archive.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>

namespace tw {
namespace {

bool is_model(const StoredTensor& tensor) {
  return (tensor.kind == ShardKind::parameter || tensor.kind == ShardKind::buffer) && tensor.on_reshard != OnReshard::drop;
}

/// A module, nested as in LibTorch's archives.
struct Node {
  std::map<std::string, std::pair<at::Tensor, bool>> tensors;  // with a flag: whether it is a buffer
  std::map<std::string, Node> children;

  Node& child(const std::string& name) { return name.empty() ? *this : descend(name); }

  void fill_numbers() {
    int64_t largest = -1;
    for (const auto& [name, node] : children) {
      int64_t number = -1;
      const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
      if (read.ec == std::errc() && read.ptr == name.data() + name.size() && number < 100'000) largest = std::max(largest, number);
    }
    for (int64_t number = 0; number < largest; ++number) children[std::to_string(number)];
    for (auto& [name, node] : children) node.fill_numbers();
  }

  void write(torch::serialize::OutputArchive& archive) const {
    for (const auto& [name, entry] : tensors) archive.write(name, entry.first, entry.second);
    for (const auto& [name, node] : children) {
      torch::serialize::OutputArchive nested(archive.compilation_unit());
      node.write(nested);
      archive.write(name, nested);
    }
  }

 private:
  Node& descend(const std::string& name) {
    const size_t dot = name.find('.');
    Node& first = children[name.substr(0, dot)];
    return dot == std::string::npos ? first : first.descend(name.substr(dot + 1));
  }
};

void add(Node& root, const std::string& name, const at::Tensor& tensor, bool is_buffer) {
  const size_t dot = name.rfind('.');
  Node& owner = root.child(dot == std::string::npos ? "" : name.substr(0, dot));
  owner.tensors[dot == std::string::npos ? name : name.substr(dot + 1)] = {tensor, is_buffer};
}

// Reading a tensor verifies no checksums, so damage would be exported.
void expect_undamaged(const Checkpoint& checkpoint) {
  if (const auto problems = checkpoint.verify(); !problems.empty()) throw Error(problems.front());
}

std::vector<std::string> listed_in(const std::string& metadata) {
  const auto json = nlohmann::json::parse(metadata, nullptr, false);
  std::vector<std::string> names;
  if (!json.is_object() || !json.contains("empty_submodules") || !json["empty_submodules"].is_array()) return names;
  for (const auto& name : json["empty_submodules"]) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

/// A tensor of an export: a stored tensor, or one layer of a stored stack, under the name that it has in a module with these layers.
struct ExportedTensor {
  TensorSpec spec;
  const StoredTensor* stored;
  int64_t layer = -1;  // -1: all of `stored`

  bool is_buffer() const { return stored->kind == ShardKind::buffer; }
  std::vector<std::string> aliases() const { return layer < 0 ? stored->aliases : std::vector<std::string>(); }
};

// The result refers to the checkpoint's index.
std::vector<ExportedTensor> exported_tensors(const Checkpoint& checkpoint) {
  std::vector<ExportedTensor> all;
  for (const StoredTensor& tensor : checkpoint.index().tensors) {
    if (!is_model(tensor)) continue;
    if (tensor.layers.empty()) {
      all.push_back({tensor.spec, &tensor});
      continue;
    }
    const std::vector<int64_t>& shape = tensor.spec.shape;
    for (int64_t layer = 0; layer < shape[0]; ++layer) {
      all.push_back({{layer_name(tensor.layers, layer), {shape.begin() + 1, shape.end()}, tensor.spec.dtype}, &tensor, layer});
    }
  }
  return all;
}

at::Tensor read_exported(const Checkpoint& checkpoint, const ExportedTensor& tensor) {
  const TensorSpec& stored = tensor.stored->spec;
  if (tensor.layer < 0) return checkpoint.read(stored.name);
  Box part = whole_box(stored.shape);
  part.offsets[0] = tensor.layer;
  part.lengths[0] = 1;
  return checkpoint.read(stored.name, part).select(0, 0);
}

// LibTorch's own writer reports neither file nor reason if the disk is full.
void write_archive(torch::serialize::OutputArchive& archive, const std::filesystem::path& path) {
  FileDescriptor file(path, O_WRONLY | O_CREAT | O_TRUNC, "cannot be written");
  std::exception_ptr failure;
  archive.save_to([&](const void* data, size_t bytes) {
    try {
      if (!failure) file.write(data, bytes);
    } catch (...) {  // must not propagate through LibTorch's C code
      failure = std::current_exception();
    }
    return bytes;
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

void export_for_libtorch(const Checkpoint& checkpoint, const std::filesystem::path& path) {
  export_for_libtorch(checkpoint, path, listed_in(checkpoint.index().metadata));
}

void export_for_libtorch(const Checkpoint& checkpoint, const std::filesystem::path& path, const std::vector<std::string>& empty_submodules) {
  expect_undamaged(checkpoint);
  Node root;
  for (const ExportedTensor& tensor : exported_tensors(checkpoint)) {
    const at::Tensor value = read_exported(checkpoint, tensor);
    add(root, tensor.spec.name, value, tensor.is_buffer());
    for (const std::string& alias : tensor.aliases()) add(root, alias, value, tensor.is_buffer());
  }
  for (const std::string& name : empty_submodules) root.child(name);
  root.fill_numbers();
  torch::serialize::OutputArchive archive;
  root.write(archive);
  replace_file(path, [&](const std::filesystem::path& partial) { write_archive(archive, partial); });
}

void export_safetensors(const Checkpoint& checkpoint, const std::filesystem::path& path, std::map<std::string, std::string> metadata) {
  expect_undamaged(checkpoint);
  metadata.emplace("format", "pt");
  const std::vector<ExportedTensor> tensors = exported_tensors(checkpoint);
  std::vector<TensorSpec> specs;
  for (const ExportedTensor& tensor : tensors) {
    specs.push_back(tensor.spec);
    for (const std::string& alias : tensor.aliases()) metadata[alias] = tensor.spec.name;
  }
  write_safetensors(path, specs, [&](size_t index) { return read_exported(checkpoint, tensors[index]); }, metadata);
}

}  // namespace tw
