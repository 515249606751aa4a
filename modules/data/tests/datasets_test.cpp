// SPDX-License-Identifier: Apache-2.0
#include "files.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>
#include <tw/data.hpp>
#include <tw/data/subset.hpp>

namespace datasets_test {

using Indices = std::vector<int64_t>;
using tw::testing::expect_file_error;
using tw::testing::fresh_folder;
using tw::testing::write_file;

template <class Call>
void expect_error(const Call& call, const std::string& problem) {
  try {
    call();
    ADD_FAILURE() << "no exception where " << problem << " was expected";
  } catch (const tw::Error& error) {
    EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
  }
}

TEST(HoldOut, DrawsBySeedAndLosesNothing) {
  const tw::Holdout parts = tw::hold_out(50, 7, 1);
  EXPECT_EQ(parts.held_out.size(), 7U);
  std::set<int64_t> all(parts.kept.begin(), parts.kept.end());
  all.insert(parts.held_out.begin(), parts.held_out.end());
  EXPECT_EQ(all.size(), 50U);
  EXPECT_EQ(*all.rbegin(), 49);
  EXPECT_EQ(tw::hold_out(50, 7, 1).held_out, parts.held_out);
  EXPECT_NE(tw::hold_out(50, 7, 2).held_out, parts.held_out);
  EXPECT_TRUE(tw::hold_out(5, 0, 1).held_out.empty());
  EXPECT_THROW((void)tw::hold_out(5, 6, 1), tw::ContractError);
}

TEST(HoldOut, TakesOfEachClassItsShare) {
  const auto classes = torch::cat({torch::full({60}, 3, torch::kByte), torch::full({30}, 1, torch::kByte), torch::full({11}, 7, torch::kByte)});
  const tw::Holdout parts = tw::hold_out(classes, 10, 4);
  EXPECT_EQ(parts.kept.size(), 91U);
  std::map<int64_t, int> of_class;
  for (const int64_t each : parts.held_out) ++of_class[classes[each].item<int64_t>()];
  EXPECT_EQ(of_class, (std::map<int64_t, int>{{3, 6}, {1, 3}, {7, 1}})) << "5.94, 2.97 and 1.09";
  EXPECT_NE(tw::hold_out(classes, 10, 5).held_out, parts.held_out);
}

TEST(Subset, HasItsOwnNumbers) {
  const auto whole = std::make_shared<tw::TensorDataset>(torch::arange(5.0).reshape({5, 1}), torch::arange(5));
  const tw::Subset subset(whole, {4, 1});
  EXPECT_EQ(subset.size(), 2);
  EXPECT_TRUE(subset.batch(Indices{1, 0, 1}).targets.equal(torch::tensor({1, 4, 1})));
  EXPECT_THROW((void)subset.batch(Indices{2}), tw::ContractError);
  EXPECT_THROW(tw::Subset(whole, {5}), tw::ContractError);
}

TEST(AddingProblem, WantsTheSumOfTwoMarkedNumbers) {
  const tw::TensorDataset problem = tw::make_adding_problem(200, 21, 3);
  const auto batch = problem.batch(Indices{0, 1, 199});
  EXPECT_EQ(batch.inputs.sizes(), (Indices{3, 21, 2}));
  EXPECT_EQ(batch.targets.sizes(), (Indices{3, 1}));
  const auto numbers = batch.inputs.select(-1, 0);
  const auto marks = batch.inputs.select(-1, 1);
  EXPECT_TRUE((numbers * marks).sum(1, /*keepdim=*/true).allclose(batch.targets));
  EXPECT_TRUE(marks.narrow(1, 0, 10).sum(1).equal(torch::ones({3}))) << "one in each half";
  EXPECT_TRUE(marks.narrow(1, 10, 11).sum(1).equal(torch::ones({3})));
  EXPECT_TRUE(problem.batch(Indices{1}).inputs.equal(tw::make_adding_problem(2, 21, 3).batch(Indices{1}).inputs)) << "whatever their number";
  EXPECT_FALSE(problem.batch(Indices{1}).inputs.equal(tw::make_adding_problem(2, 21, 4).batch(Indices{1}).inputs));
  EXPECT_THROW((void)tw::make_adding_problem(1, 1, 3), tw::ContractError);
}

TEST(TensorDataset, GathersRowsOfAnyDtype) {
  for (const auto dtype : {torch::kBool, torch::kByte, torch::kLong, torch::kHalf, torch::kBFloat16, torch::kDouble, torch::kComplexFloat}) {
    const auto inputs = (torch::rand({5, 2, 3}) * 9).to(dtype);
    const auto targets = torch::arange(5);
    const tw::TensorDataset dataset(inputs, targets);
    EXPECT_EQ(dataset.size(), 5);
    const auto batch = dataset.batch(Indices{4, 0, 4});
    EXPECT_EQ(batch.size(), 3);
    EXPECT_TRUE(batch.inputs.equal(inputs.index_select(0, torch::tensor({4, 0, 4})))) << dtype;
    EXPECT_TRUE(batch.targets.equal(torch::tensor({4, 0, 4})));
    EXPECT_EQ(dataset.batch({}).inputs.sizes(), (Indices{0, 2, 3}));
    EXPECT_THROW((void)dataset.batch(Indices{5}), tw::ContractError);
    EXPECT_THROW((void)dataset.batch(Indices{-1}), tw::ContractError);
  }
  const auto view = torch::arange(6.0).reshape({2, 3}).t();  // not contiguous
  EXPECT_TRUE(tw::TensorDataset(view, torch::zeros({3, 2})).batch(Indices{1}).inputs.equal(view.slice(0, 1, 2)));
  const auto conjugate = torch::complex(torch::ones({2}), torch::ones({2})).conj();  // lazily conjugated
  EXPECT_TRUE(tw::TensorDataset(conjugate, conjugate).batch(Indices{1}).inputs.equal(conjugate.slice(0, 1, 2)));
  EXPECT_EQ(tw::TensorDataset(torch::zeros({0, 3}), torch::zeros({0})).batch({}).inputs.sizes(), (Indices{0, 3}));
}

TEST(TensorDataset, NamesWhatDoesNotFit) {
  EXPECT_THROW(tw::TensorDataset(torch::zeros({2, 3}), torch::zeros({3})), tw::ContractError);
  EXPECT_THROW(tw::TensorDataset(torch::zeros({2, 3}), torch::zeros({})), tw::ContractError);
  EXPECT_THROW(tw::TensorDataset(torch::zeros({2, 3}), {}), tw::ContractError);
  for (const auto dtype : {torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble, torch::kComplexFloat, torch::kComplexDouble}) {
    for (const double bad : {NAN, INFINITY, -INFINITY}) {
      auto values = torch::full({40, 3}, 6e4).to(dtype);  // large, but finite in float16
      EXPECT_NO_THROW(tw::TensorDataset(values, values));
      values.index_put_({23, 2}, bad);
      expect_error([&] { tw::TensorDataset(values, torch::zeros({40}), {.name = "wind.csv"}); }, "wind.csv: the inputs of row 23");
      expect_error([&] { tw::TensorDataset(torch::zeros({40}), values); }, "the data: the targets of row 23");
      EXPECT_NO_THROW(tw::TensorDataset(values, values, {.allow_non_finite = true}));
    }
  }
}

// Two pairs, with 3 and 2 samples.
std::filesystem::path make_shards() {
  const auto folder = fresh_folder("shards");
  tw::write_npy(folder / "inputs_0.npy", torch::arange(6.0).reshape({3, 2}));
  tw::write_npy(folder / "targets_0.npy", torch::tensor({0, 10, 20}));
  tw::write_npy(folder / "inputs_1.npy", torch::arange(6.0, 10.0).reshape({2, 2}));
  tw::write_npy(folder / "targets_1.npy", torch::tensor({30, 40}));
  return folder;
}

TEST(ShardedDataset, NumbersSamplesThroughAllFiles) {
  const auto folder = make_shards();
  tw::write_npy(folder / "inputs_00.npy", torch::zeros({0, 2}));  // sorts between the two; a pair may be empty
  tw::write_npy(folder / "targets_00.npy", torch::zeros({0}, torch::kLong));
  const tw::ShardedDataset dataset(folder);
  EXPECT_EQ(dataset.size(), 5);
  EXPECT_EQ(dataset.shards(), 3);
  const auto batch = dataset.batch(Indices{4, 0, 3, 2, 2});
  EXPECT_TRUE(batch.targets.equal(torch::tensor({40, 0, 30, 20, 20})));
  EXPECT_TRUE(batch.inputs.equal(torch::tensor({8.0F, 9.0F, 0.0F, 1.0F, 6.0F, 7.0F, 4.0F, 5.0F, 4.0F, 5.0F}).reshape({5, 2})));
  EXPECT_EQ(dataset.batch({}).inputs.sizes(), (Indices{0, 2}));
  EXPECT_EQ(dataset.batch({}).targets.scalar_type(), torch::kLong);
  EXPECT_THROW((void)dataset.batch(Indices{5}), tw::ContractError);
  EXPECT_THROW((void)dataset.batch(Indices{-1}), tw::ContractError);
  EXPECT_NO_THROW(dataset.check_all());
}

TEST(ShardedDataset, NamesTheFileThatDoesNotFit) {
  const auto refused = [](const std::filesystem::path& folder, const std::string& file, const std::string& problem) {
    expect_file_error([&] { const tw::ShardedDataset dataset(folder); }, file, -1, problem);
  };
  refused("/does/not/exist", "exist", "is not a directory");
  refused(fresh_folder("nothing"), "nothing", "no pair");
  auto folder = make_shards();
  std::filesystem::remove(folder / "targets_1.npy");
  refused(folder, "inputs_1.npy", "has no matching file targets_1.npy");
  folder = make_shards();
  std::filesystem::remove(folder / "inputs_0.npy");
  refused(folder, "targets_0.npy", "has no matching file inputs_0.npy");
  folder = make_shards();
  tw::write_npy(folder / "inputs_1.npy", torch::zeros({2, 3}));
  refused(folder, "inputs_1.npy", "rows of Float [3], but inputs_0.npy holds rows of Float [2]");
  tw::write_npy(folder / "inputs_1.npy", torch::zeros({2, 2}, torch::kDouble));
  refused(folder, "inputs_1.npy", "rows of Double [2]");
  tw::write_npy(folder / "inputs_1.npy", torch::zeros({3, 2}));
  refused(folder, "targets_1.npy", "holds 2 rows, but inputs_1.npy holds 3");
  std::filesystem::resize_file(folder / "inputs_1.npy", std::filesystem::file_size(folder / "inputs_1.npy") - 1);
  refused(folder, "inputs_1.npy", "1 bytes early");
}

TEST(ShardedDataset, NamesFileAndRowOfWhatIsNotFinite) {
  const auto folder = make_shards();
  auto bad = torch::arange(6.0, 10.0).reshape({2, 2});
  bad.index_put_({1, 0}, NAN);
  tw::write_npy(folder / "inputs_1.npy", bad);
  const tw::ShardedDataset dataset(folder);
  EXPECT_NO_THROW((void)dataset.batch(Indices{0, 1, 2, 3}));
  const int64_t offset = 128 + 8;  // the header, and one row
  expect_file_error([&] { (void)dataset.batch(Indices{0, 4}); }, "inputs_1.npy", offset, "row 1 holds NaN or infinity");
  expect_file_error([&] { dataset.check_all(); }, "inputs_1.npy", offset, "row 1 holds NaN or infinity");
  const tw::ShardedDataset tolerant(folder, {.allow_non_finite = true});
  EXPECT_TRUE(tolerant.batch(Indices{4}).inputs.isnan().any().item<bool>());
  EXPECT_THROW(tolerant.check_all(), tw::FileError);
}

TEST(Regression, OpensShardsOrCsv) {
  const auto folder = fresh_folder("regression");
  std::filesystem::create_directories(folder / "train");
  tw::write_npy(folder / "train" / "inputs.npy", torch::ones({4, 2}, torch::kDouble));
  tw::write_npy(folder / "train" / "targets.npy", torch::ones({4, 1}, torch::kDouble));
  EXPECT_EQ(tw::load_regression(folder, tw::Split::train)->size(), 4);
  EXPECT_THROW((void)tw::load_regression(folder, tw::Split::test), tw::FileError);
  std::filesystem::create_directories(folder / "test");
  expect_file_error([&] { (void)tw::load_regression(folder, tw::Split::test); }, "test", 0, "it holds nothing");
  write_file("regression/test/data.csv", "1,2\n");
  expect_file_error([&] { (void)tw::load_regression(folder, tw::Split::test); }, "test", 0, "must hold inputs.csv and targets.csv, or pairs");
  expect_file_error([&] { (void)tw::load_regression(folder, tw::Split::test); }, "test", 0, "it holds data.csv");
  write_file("regression/train/inputs.csv", "1,2\n");
  expect_file_error([&] { (void)tw::load_regression(folder, tw::Split::train); }, "train", 0, "holds both CSV and NPY files");
  write_file("regression/test/inputs.csv", "x,y\n1,2\n3,4\n");
  expect_file_error([&] { (void)tw::load_regression(folder, tw::Split::test); }, "targets.csv", 0, "cannot be opened");
  write_file("regression/test/targets.csv", "z\n5\n");
  expect_file_error([&] { (void)tw::load_regression(folder, tw::Split::test); }, "targets.csv", 0, "holds 1 rows, but inputs.csv holds 2");
  write_file("regression/test/targets.csv", "z\n5\nnan\n");
  expect_error([&] { (void)tw::load_regression(folder, tw::Split::test); }, "test: the targets of row 1");
  write_file("regression/test/targets.csv", "z\n5\n6\n");
  const auto batch = tw::load_regression(folder, tw::Split::test)->batch(Indices{1});
  EXPECT_EQ(tw::load_regression(folder, tw::Split::test, {.header = tw::CsvHeader::present})->memory().size(), 2U);
  EXPECT_TRUE(batch.inputs.equal(torch::tensor({{3.0, 4.0}}, torch::kDouble)));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({{6.0}}, torch::kDouble)));
}

}  // namespace datasets_test
