// SPDX-License-Identifier: Apache-2.0
#include "data_identity.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/hash.hpp>
#include <tw/base/number_text.hpp>
#include <tw/tensor/content_hash.hpp>
#include <vector>

namespace tw::train {
namespace {

// Limits for data that are not in memory: they can be read in about a second.
constexpr int64_t max_samples = 1024;
constexpr int64_t max_bytes = int64_t{64} << 20;

constexpr const char* to_validate = "; to validate: ";

std::string hash_of(const std::vector<at::Tensor>& tensors) {
  std::string hashes;
  for (const at::Tensor& tensor : tensors) hashes += concat(content_hash(tensor), ' ');
  return hashes;
}

// `count` evenly spaced numbers below `size`, including the first and the last.
std::vector<int64_t> spread(int64_t count, int64_t size) {
  std::set<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) indices.insert(count == 1 ? 0 : (size - 1) * i / (count - 1));
  return {indices.begin(), indices.end()};
}

// "60000 samples, content 1f3a", "60000 samples, 1024 of which have content 1f3a", or "60000 samples".
std::string identity_of(const Dataset& data) {
  std::string samples = concat(data.size(), " samples");
  if (data.size() == 0) return samples;
  if (const auto memory = data.memory(); !memory.empty()) return concat(samples, ", content ", hex_text(content_hash(hash_of(memory))));
  const std::vector<int64_t> first{0};
  if (hash_of_samples(data, first) != hash_of_samples(data, first)) return samples;  // some data sets return different values each time
  const Batch one = data.batch(first);
  const auto bytes = static_cast<int64_t>(one.inputs.nbytes() + one.targets.nbytes());
  const int64_t count = std::clamp<int64_t>(max_bytes / std::max<int64_t>(bytes, 1), 8, max_samples);
  const std::vector<int64_t> indices = spread(std::min(count, data.size()), data.size());
  return concat(samples, ", ", indices.size(), " of which have content ", hex_text(content_hash(hash_of_samples(data, indices))));
}

}  // namespace

std::string hash_of_samples(const Dataset& data, std::span<const int64_t> indices) {
  constexpr size_t at_once = 64;
  std::string hashes;
  for (size_t begin = 0; begin < indices.size(); begin += at_once) {
    const Batch batch = data.batch(indices.subspan(begin, std::min(at_once, indices.size() - begin)));
    hashes += hash_of({batch.inputs, batch.targets});
  }
  return hashes;
}

std::string identity_of(const Dataset& train, const Dataset& test, const Dataset* validation) {
  return concat("to train: ", identity_of(train), "; to test: ", identity_of(test), to_validate,
                validation != nullptr ? identity_of(*validation) : "nothing");
}

bool names_validation(const std::string& identity) { return identity.find(to_validate) != std::string::npos; }

bool is_same_data(const std::string& a, const std::string& b) {
  if (names_validation(a) == names_validation(b)) return a == b;
  return a.substr(0, a.find(to_validate)) == b.substr(0, b.find(to_validate));
}

}  // namespace tw::train
