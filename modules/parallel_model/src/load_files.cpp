// SPDX-License-Identifier: Apache-2.0
#include "load_files.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/tensor/safetensors.hpp>

namespace tw {
namespace {

/// A tensor in one of the files; no file: there is none.
struct Stored {
  const SafetensorsFile* file = nullptr;
  std::string name = {};

  const std::vector<int64_t>& shape() const { return file->spec(name).shape; }
};

/// Where a shard, or one layer of it, is stored.
struct Source {
  at::Tensor to;
  Stored from;
  std::vector<int64_t> offsets;
};

class Sources {
 public:
  Sources(const std::vector<SafetensorsFile>& files, const std::function<std::string(const std::string& name)>& name_in_files)
      : files_(files), name_in_files_(name_in_files) {}

  /// @throws Error with all problems
  std::vector<Source> of(const std::vector<NamedShard>& shards) {
    std::string problems;
    for (const NamedShard& shard : shards) {
      if (const std::string problem = add(shard); !problem.empty()) problems += "\n  " + problem;
    }
    if (!problems.empty()) throw Error("the files do not match the model:" + problems);
    return std::move(sources_);
  }

 private:
  std::string name_of(const std::string& name) const { return name_in_files_ ? name_in_files_(name) : name; }

  /// The metadata of a file may map another name of a tensor to the name under which the file stores it.
  Stored find(const std::string& name) const {
    for (const SafetensorsFile& file : files_) {
      if (file.contains(name)) return {&file, name};
    }
    for (const SafetensorsFile& file : files_) {
      const auto alias = file.metadata().find(name);
      if (alias != file.metadata().end() && file.contains(alias->second)) return {&file, alias->second};
    }
    return {};
  }

  /// The files may have a tied parameter under any of its names.
  Stored find(const NamedShard& shard) const {
    Stored stored = find(name_of(shard.name));
    for (size_t i = 0; i < shard.aliases.size() && stored.file == nullptr; ++i) stored = find(name_of(shard.aliases[i]));
    return stored;
  }

  static std::string misfit(const Stored& stored, const std::string& name, const std::vector<int64_t>& shape) {
    if (stored.shape() == shape) return "";
    return concat("'", stored.name, "' has the shape ", shape_text(stored.shape()), ", but '", name, "' has ", shape_text(shape));
  }

  /// @return why the shard cannot be read; empty if it can, or stays as it is
  std::string add(const NamedShard& shard) {
    std::string problem;
    if (const std::string name = name_of(shard.name); !name.empty()) {
      const Stored stored = find(shard);
      problem = stored.file == nullptr ? concat("there is no '", name, "'") : misfit(stored, shard.name, shard.global_shape);
      if (problem.empty()) {
        sources_.push_back({shard.tensor, stored, shard.offsets});
        return "";
      }
    }
    return shard.layers.empty() ? problem : add_layers(shard, problem);
  }

  /// The layers of a stack, one by one. @param no_stack why there is no whole stack
  std::string add_layers(const NamedShard& shard, const std::string& no_stack) {
    const std::vector<int64_t> shape(shard.global_shape.begin() + 1, shard.global_shape.end());
    const std::vector<int64_t> offsets(shard.offsets.begin() + 1, shard.offsets.end());
    std::vector<Source> layers;
    for (int64_t i = 0; i < shard.tensor.size(0); ++i) {
      const std::string layer = layer_name(shard.layers, shard.offsets[0] + i);
      const std::string name = name_of(layer);
      if (name.empty()) continue;
      const Stored stored = find(name);
      if (stored.file == nullptr) return concat(no_stack, no_stack.empty() ? "" : "; ", "there is no '", name, "'");
      if (std::string problem = misfit(stored, layer, shape); !problem.empty()) return problem;
      layers.push_back({shard.tensor.select(0, i), stored, offsets});
    }
    if (layers.empty()) return no_stack;
    sources_.insert(sources_.end(), layers.begin(), layers.end());
    return "";
  }

  const std::vector<SafetensorsFile>& files_;
  const std::function<std::string(const std::string& name)>& name_in_files_;
  std::vector<Source> sources_;
};

}  // namespace

void load_files(const Communicator& comm, const std::vector<NamedShard>& shards, const std::vector<std::filesystem::path>& files,
                const std::function<std::string(const std::string& name)>& name_in_files) {
  const at::NoGradGuard no_grad;
  std::vector<SafetensorsFile> opened;
  const auto sources = on_all_ranks(comm, "finding the model's tensors in the files", [&] {
    for (const std::filesystem::path& path : files) opened.emplace_back(path);
    return Sources(opened, name_in_files).of(shards);
  });
  on_all_ranks(comm, "loading the model from files", [&] {
    for (const auto& [to, from, offsets] : sources) {
      const at::Tensor part = at::empty(to.sizes(), at::device(at::kCPU).dtype(from.file->spec(from.name).dtype));
      from.file->read_into(from.name, offsets, part);
      to.copy_(part);
    }
  });
}

}  // namespace tw
