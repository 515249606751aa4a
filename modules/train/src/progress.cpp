// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw::train {
namespace {

constexpr int64_t progress_version = 1;

template <class T>
void read(const nlohmann::json& json, T& value) {
  json.get_to(value);
}

// JSON has no NaN or infinity; both are written as null.
void read(const nlohmann::json& json, double& value) { value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>(); }

void read(const nlohmann::json& json, std::vector<double>& values) {
  for (const auto& entry : json) read(entry, values.emplace_back());
}

void read(const nlohmann::json& json, Figures& figures) {
  for (const auto& entry : json) {
    auto& [name, value] = figures.emplace_back();
    read(entry.at(0), name);
    read(entry.at(1), value);
  }
}

// Used for reading and writing: calls `visit(name, member)` for every member.
template <class SomeProgress, class Visit>
void for_each_member(SomeProgress& progress, Visit visit) {
  visit("epoch", progress.epoch);
  visit("consumed", progress.consumed);
  visit("step", progress.step);
  visit("global_batch", progress.global_batch);
  visit("seed", progress.seed);
  visit("content", progress.data);  // older versions' "data" covered eight samples: not compared
  visit("skipped", progress.skipped);
  visit("restores", progress.restores);
  visit("waited", progress.waited);
  visit("best_epoch", progress.best_epoch);
  visit("best", progress.best);
  visit("watch", progress.watch);
  visit("optimizer", progress.optimizer);
  visit("finished", progress.finished);
  visit("validation", progress.validation);
  visit("test", progress.test);
  visit("loss_sums", progress.loss_sums);
  visit("loss_samples", progress.loss_samples);
  visit("layout", progress.layout);
  visit("loss_scales", progress.loss_scales);
  visit("good_updates", progress.good_updates);
  visit("overflows", progress.overflows);
  visit("first_rates", progress.first_rates);
  visit("rates", progress.rates);
  visit("arrival_order", progress.arrival_order);
  visit("empty_submodules", progress.empty_submodules);
}

}  // namespace

std::string to_json(const Progress& progress) {
  nlohmann::ordered_json json{{"version", progress_version}};
  for_each_member(progress, [&](const char* name, const auto& member) { json[name] = member; });
  return json.dump();
}

Progress progress_from_json(const std::string& text) {
  Progress progress;
  try {
    const auto json = nlohmann::json::parse(text);
    const int64_t version = json.value("version", int64_t{1});  // checkpoints written before there was a number are of version 1
    if (version != progress_version) throw Error(concat("the trainer's state has version ", version, ", only ", progress_version, " is supported"));
    for (const char* needed : {"epoch", "consumed", "step", "global_batch", "seed"}) (void)json.at(needed);
    for_each_member(progress, [&](const char* name, auto& member) {
      if (json.contains(name)) read(json[name], member);  // members that an older version did not write keep their defaults
    });
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("the checkpoint was not written by a trainer: ") + error.what());
  }
  return progress;
}

double share_of(const std::vector<double>& sums, int rank, int ranks) {
  if (static_cast<int>(sums.size()) == ranks) return sums[static_cast<size_t>(rank)];
  return rank == 0 ? std::accumulate(sums.begin(), sums.end(), 0.0) : 0.0;
}

}  // namespace tw::train
