// SPDX-License-Identifier: Apache-2.0
#include "profile_cache.hpp"

#include <ATen/Parallel.h>

#include <fstream>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/hash.hpp>
#include <tw/base/log.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/process.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/graph/cuts.hpp>

namespace tw::pipeline {
namespace {

std::string hash_of_trained(const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind) {
  std::string names;
  for (const graph::Value& value : graph.values) {
    if (value.kind == graph::Value::Kind::parameter && bind(value.name).requires_grad()) names += value.name + '\n';
  }
  return hex_text(content_hash(names));
}

}  // namespace

ProfileCache::ProfileCache(const std::filesystem::path& directory, const graph::Graph& graph,
                           const std::function<at::Tensor(const std::string& name)>& bind, c10::DeviceType kind, int ranks, int slices,
                           int64_t rows) {
  if (directory.empty()) return;
  path_ = absolute_path(directory);  // `bind` may change the working directory
  hash_ = graph.hash();
  units_ = units_of(graph).size();
  path_ /= concat(hash_, '_', hash_of_trained(graph, bind), '_', c10::DeviceTypeName(kind, /*lower_case=*/true), '_', at::get_num_threads(),
                  "threads_", ranks, "ranks_", slices > 1 ? concat(slices, "slices_") : "", rows, "rows.json");
}

std::optional<Profile> ProfileCache::read() const {
  if (path_.empty() || !std::filesystem::exists(path_)) return {};
  try {
    const std::ifstream file(path_);
    if (!file) throw FileError(path_, 0, "cannot be opened");
    TextWriter content;
    content << file.rdbuf();
    Profile profile = profile_from_json(content.view());
    if (profile.hash != hash_) throw Error(concat("it is for a graph with hash ", profile.hash));
    if (profile.operators.size() != units_) throw Error(concat("it has ", profile.operators.size(), " operators, expected ", units_));
    return profile;
  } catch (const std::exception& error) {
    log_warning(path_.string(), " is not a profile of this model, so the model is measured again: ", error.what());
    return {};
  }
}

Profile ProfileCache::keep(const Profile& profile) const {
  if (path_.empty()) return profile;
  std::error_code code;
  std::filesystem::create_directories(path_.parent_path(), code);
  if (code) throw FileError(path_.parent_path(), 0, "the directory cannot be created: " + code.message());
  const std::string text = to_json(profile) + "\n";
  const std::filesystem::path mine = concat(path_.string(), ".of_", process_identity());
  replace_file(mine, text);
  std::filesystem::create_hard_link(mine, path_, code);  // unlike a rename, fails if the file exists
  std::error_code ignored;
  std::filesystem::remove(mine, ignored);
  if (std::optional<Profile> first = read()) return *first;
  replace_file(path_, text);  // a file that cannot be used, or a file system without hard links
  return profile;
}

}  // namespace tw::pipeline
