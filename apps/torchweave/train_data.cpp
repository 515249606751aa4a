// SPDX-License-Identifier: Apache-2.0
#include "train_data.hpp"

#include <ATen/ops/empty.h>

#include <numeric>
#include <tw/data/adding_problem.hpp>
#include <tw/data/image_dataset.hpp>
#include <tw/data/regression.hpp>
#include <tw/data/subset.hpp>
#include <tw/data/tensor_dataset.hpp>

#include "validation.hpp"

namespace tw::tool {
namespace {

/// A split, and the classes of its samples if they have classes.
struct Opened {
  std::shared_ptr<const Dataset> whole;
  std::shared_ptr<const Dataset> used;  // the first samples of `whole`
  at::Tensor classes = {};
};

Opened open_split(const DataOptions& options, const std::filesystem::path& directory, Split split, int64_t samples) {
  Opened opened;
  if (options.kind == "adding") {
    const bool trains = split == Split::train;
    constexpr uint64_t of_training = 1;
    constexpr uint64_t of_test = 2;
    const int64_t all = trains ? 10000 : 1000;
    opened.whole = opened.used =
        std::make_shared<TensorDataset>(make_adding_problem(samples > 0 ? samples : all, options.steps, trains ? of_training : of_test));
    return opened;
  }
  if (options.kind == "mnist") {
    const auto images = std::make_shared<ImageDataset>(load_mnist(directory, split));
    opened.classes = images->labels();
    opened.whole = images;
  } else {
    const CsvHeader header = options.header == "present" ? CsvHeader::present : options.header == "absent" ? CsvHeader::absent : CsvHeader::automatic;
    opened.whole = load_regression(directory, split, {.header = header});
  }
  opened.used = opened.whole;
  if (samples == 0 || samples >= opened.whole->size()) return opened;
  std::vector<int64_t> first(static_cast<size_t>(samples));
  std::iota(first.begin(), first.end(), int64_t{0});
  opened.used = std::make_shared<Subset>(opened.whole, std::move(first));
  if (opened.classes.defined()) opened.classes = opened.classes.narrow(0, 0, samples);
  return opened;
}

}  // namespace

TrainData TrainData::without_test_set() const {
  TrainData data = *this;
  data.test_set = std::make_shared<TensorDataset>(at::empty({0, 1}), at::empty({0}));
  return data;
}

TrainData open_data(const DataOptions& options) {
  const Opened train = open_split(options, options.directory, Split::train, options.train_samples);
  const Opened test = open_split(options, options.directory, Split::test, options.test_samples);
  TrainData data{train.used, nullptr, test.used, {train.whole, test.whole}};
  const Validation validation = validation_of(options);
  if (!validation.folder.empty()) {
    data.validation_set = open_split(options, validation.folder, Split::train, 0).whole;
    data.opened.push_back(data.validation_set);
  } else if (const int64_t count = validation.held_out(train.used->size()); count > 0) {
    const auto seed = static_cast<uint64_t>(options.validation_seed);
    Holdout parts = train.classes.defined() ? hold_out(train.classes, count, seed) : hold_out(train.used->size(), count, seed);
    data.train_set = std::make_shared<Subset>(train.used, std::move(parts.kept));
    data.validation_set = std::make_shared<Subset>(train.used, std::move(parts.held_out));
  }
  return data;
}

}  // namespace tw::tool
