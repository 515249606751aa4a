// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <random>

#include "flat_places.hpp"

namespace flat_places_test {

using tw::NamedShard;
using tw::OptimizedTensor;
using tw::ShardKind;

/// The model: each element of each parameter has a number of its own.
std::map<std::string, at::Tensor> numbered_model() {
  std::map<std::string, at::Tensor> model;
  int64_t next = 0;
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, std::vector<int64_t>>>{{"a", {5, 7}}, {"b", {}}, {"c", {3, 2, 4}}, {"d", {11}}}) {
    const int64_t numel = torch::empty(shape).numel();
    model[name] = torch::arange(next, next + numel, torch::kDouble).reshape(shape);
    next += numel;
  }
  return model;
}

/// What one rank has of it: a box of each parameter, or a run of its elements in several slices.
std::vector<OptimizedTensor> random_part(const std::map<std::string, at::Tensor>& model, std::mt19937& random) {
  const auto up_to = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n)(random); };
  std::vector<OptimizedTensor> part;
  for (const auto& [name, whole] : model) {
    OptimizedTensor& each = part.emplace_back();
    if (up_to(1) == 0) {
      const int64_t begin = up_to(whole.numel());
      each.tensor = whole.flatten().narrow(0, begin, up_to(whole.numel() - begin)).clone();
      each.slices = tw::slices_of_run(name, whole.sizes().vec(), each.tensor, begin, ShardKind::parameter);
    } else {
      at::Tensor box = whole;
      NamedShard place{.name = name, .aliases = {}, .global_shape = whole.sizes().vec(), .tensor = {}, .offsets = {}};
      for (int64_t d = 0; d < whole.dim(); ++d) {
        const int64_t begin = up_to(whole.size(d) - 1);
        box = box.narrow(d, begin, 1 + up_to(whole.size(d) - begin - 1));
        place.offsets.push_back(begin);
      }
      each.tensor = box.clone();
      place.tensor = each.tensor;
      each.slices = {place};
    }
  }
  return part;
}

TEST(FlatPlaces, AreWhereTheElementsLieInTheModel) {
  const auto model = numbered_model();
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const std::vector<OptimizedTensor> part = random_part(model, random);
    std::vector<at::Tensor> all;
    for (const OptimizedTensor& each : part) all.push_back(each.tensor.flatten());
    const at::Tensor flat = torch::cat(all);
    const auto servers = std::uniform_int_distribution<int64_t>(1, 4)(random);
    std::map<double, int> met;
    for (int64_t server = 0; server < servers; ++server) {
      const int64_t begin = flat.numel() * server / servers;
      const int64_t end = flat.numel() * (server + 1) / servers;
      const NamedShard run{
          .name = "servers", .aliases = {}, .global_shape = {flat.numel()}, .tensor = flat.slice(0, begin, end).clone(), .offsets = {begin}};
      for (const NamedShard& place : tw::train::places_in_model(run, part)) {
        EXPECT_TRUE(place.tensor.is_alias_of(run.tensor)) << "so that loading fills the run";
        const std::string name = place.name.substr(std::string("servers/").size());
        at::Tensor expected = model.at(name);
        EXPECT_EQ(place.global_shape, expected.sizes().vec());
        for (int64_t d = 0; d < expected.dim(); ++d) expected = expected.narrow(d, place.offsets[static_cast<size_t>(d)], place.tensor.size(d));
        EXPECT_TRUE(torch::equal(place.tensor, expected)) << name << ", seed " << seed;
        const at::Tensor values = place.tensor.flatten();
        for (int64_t i = 0; i < values.numel(); ++i) ++met[values[i].item<double>()];
      }
    }
    EXPECT_EQ(static_cast<int64_t>(met.size()), flat.numel()) << "seed " << seed;
    for (const auto& [number, times] : met) EXPECT_EQ(times, 1) << number << ", seed " << seed;
  }
}

}  // namespace flat_places_test
