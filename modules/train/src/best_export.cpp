// SPDX-License-Identifier: Apache-2.0
#include "best_export.hpp"

#include <algorithm>
#include <map>
#include <system_error>
#include <tw/base/concat.hpp>
#include <tw/base/exact_text.hpp>
#include <tw/base/file.hpp>
#include <tw/base/log.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/state/export.hpp>
#include <tw/tensor/safetensors.hpp>

namespace tw::train {
namespace {

using Metadata = std::map<std::string, std::string>;

/// That of the file; empty if it cannot be read.
Metadata metadata_in(const std::filesystem::path& path) {
  try {
    return SafetensorsFile(path).metadata();
  } catch (const std::exception&) {
    return {};
  }
}

/// The number in an entry, or `otherwise`.
template <class Number>
Number number_in(const Metadata& metadata, const std::string& key, Number otherwise) {
  const auto entry = metadata.find(key);
  if (entry == metadata.end()) return otherwise;
  Number number{};
  return TextReader(entry->second) >> number ? number : otherwise;
}

}  // namespace

Progress BestExport::evaluation(const Progress& checkpoint) const {
  Progress found = checkpoint;
  found.best_epoch = 0;
  const Metadata metadata = metadata_in(path_);
  const auto epoch = number_in<int64_t>(metadata, "epoch", 0);
  const auto value = metadata.find(checkpoint.watch);
  if (epoch > checkpoint.best_epoch) return found;
  if (epoch == checkpoint.best_epoch) {
    const std::string exact = exact_text(checkpoint.best);
    const bool is_equal =
        value == metadata.end() ? checkpoint.watch.empty() : value->second == exact || value->second == concat(checkpoint.best);  // older versions
    if (is_equal) found.best_epoch = epoch;
  } else if (value != metadata.end()) {
    found.best_epoch = epoch;
    found.best = number_in(metadata, checkpoint.watch, 0.0);
  }
  return found;
}

void BestExport::write(const Checkpoint& best) const {
  const Progress progress = progress_from_json(best.index().metadata);
  const Metadata metadata{{"epoch", std::to_string(progress.best_epoch)}, {progress.watch, exact_text(progress.best)}};
  const Metadata now = metadata_in(path_);  // the names of tensors, too
  if (std::ranges::includes(now, metadata)) return;
  export_safetensors(best, path_, metadata);
}

void BestExport::remove() const {
  std::error_code code;
  if (!std::filesystem::remove(path_, code) && code) log_warning(path_.string(), " cannot be removed: ", code.message());
}

void BestExport::remove_partials() const {
  for (const std::string& failure : remove_partials_of(path_)) log_warning("a partial file of an earlier run cannot be removed: ", failure);
}

}  // namespace tw::train
