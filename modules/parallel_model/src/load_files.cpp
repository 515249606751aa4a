// SPDX-License-Identifier: Apache-2.0
#include "load_files.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/tensor/safetensors.hpp>

namespace tw {
namespace {

/// Where a shard lies.
struct Source {
  const NamedShard* shard;
  const SafetensorsFile* file;
  std::string name;
};

class Sources {
 public:
  Sources(const std::vector<SafetensorsFile>& files, const std::function<std::string(const std::string& name)>& name_in_files)
      : files_(files), name_in_files_(name_in_files) {}

  /// @throws Error with all problems
  std::vector<Source> of(const std::vector<NamedShard>& shards) const {
    std::vector<Source> sources;
    std::string problems;
    for (const NamedShard& shard : shards) {
      if (name_of(shard.name).empty()) continue;
      const Source source = find(shard);
      if (source.file == nullptr) {
        problems += concat("\n  there is no '", name_of(shard.name), "'");
      } else if (const TensorSpec& spec = source.file->spec(source.name); spec.shape != shard.global_shape) {
        problems +=
            concat("\n  '", source.name, "' has the shape ", shape_text(spec.shape), ", but '", shard.name, "' has ", shape_text(shard.global_shape));
      } else {
        sources.push_back(source);
      }
    }
    if (!problems.empty()) throw Error("the files do not fit the model:" + problems);
    return sources;
  }

 private:
  std::string name_of(const std::string& name) const { return name_in_files_ ? name_in_files_(name) : name; }

  /// A tied parameter may be there under any of its names.
  Source find(const NamedShard& shard) const {
    std::vector<std::string> names{shard.name};
    names.insert(names.end(), shard.aliases.begin(), shard.aliases.end());
    for (const std::string& each : names) {
      const std::string name = name_of(each);
      const auto file = std::ranges::find_if(files_, [&](const SafetensorsFile& one) { return one.contains(name); });
      if (file != files_.end()) return {&shard, &*file, name};
    }
    return {&shard, nullptr, ""};
  }

  const std::vector<SafetensorsFile>& files_;
  const std::function<std::string(const std::string& name)>& name_in_files_;
};

}  // namespace

void load_files(const Communicator& comm, const std::vector<NamedShard>& shards, const std::vector<std::filesystem::path>& files,
                const std::function<std::string(const std::string& name)>& name_in_files) {
  const at::NoGradGuard no_grad;
  std::vector<SafetensorsFile> opened;
  const auto sources = on_all_ranks(comm, "looking for the model in files", [&] {
    for (const std::filesystem::path& path : files) opened.emplace_back(path);
    return Sources(opened, name_in_files).of(shards);
  });
  on_all_ranks(comm, "loading the model from files", [&] {
    for (const auto& [shard, file, name] : sources) {
      const at::Tensor part = at::empty(shard->tensor.sizes(), at::device(at::kCPU).dtype(file->spec(name).dtype));
      file->read_into(name, shard->offsets, part);
      shard->tensor.copy_(part);
    }
  });
}

}  // namespace tw
