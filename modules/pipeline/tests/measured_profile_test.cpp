// SPDX-License-Identifier: Apache-2.0
// Measuring on several ranks, and the cache of profiles.
#include "mpi_test.hpp"

#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/graph/forward.hpp>
#include <tw/models/mlp.hpp>
#include <tw/pipeline/measured_profile.hpp>
#include <tw/pipeline/planned_model.hpp>

#include "../src/measured_units.hpp"

namespace tw::pipeline {
namespace measured_profile_test {

using at::Tensor;
using testing::world;
namespace fs = std::filesystem;

/// A captured MLP with equal inner layers.
struct Subject {
  explicit Subject(int64_t layers = 5) : mlp(std::vector<int64_t>(static_cast<size_t>(layers + 1), 16)) {
    testing::place_module(mlp);
    std::vector<NamedTensor> parameters;
    for (const auto& each : mlp->named_parameters()) parameters.push_back({each.key(), each.value()});
    graph = graph::capture(graph::forward_of(*mlp), parameters, {}, {example});
  }
  std::function<Tensor(const std::string&)> bind() {
    return [all = mlp->named_parameters()](const std::string& name) { return all[name]; };
  }

  models::Mlp mlp;
  Tensor example = testing::place(torch::ones({6, 16}));
  graph::Graph graph;
};

/// An empty directory, the same on all ranks.
fs::path new_directory(const std::string& name) {
  const fs::path path = fs::path(std::getenv("TEST_TMPDIR") != nullptr ? std::getenv("TEST_TMPDIR") : ::testing::TempDir()) /
                        concat("measured_profile_", testing::device().is_cpu() ? "" : "simulated_", world().size(), '_', name);
  if (world().rank() == 0) fs::remove_all(path);
  return broadcast_string(world(), path.string(), Rank(0));
}

std::vector<fs::path> files_of(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& each : fs::directory_iterator(directory)) files.push_back(each.path());
  return files;
}

std::string content_of(const fs::path& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

/// Rank 0 makes the call while all other ranks wait.
void on_first(const std::function<void()>& call) {
  (void)broadcast_string(world(), "", Rank(0));
  if (world().rank() == 0) call();
  (void)allgather_strings(world(), "");
}

TEST(MeasuringRanks, formsAreDealtOutAndEachIsMeasuredOnce) {
  const std::vector<std::string> forms{"a", "b", "a", "c", "d", "b", "e"};
  EXPECT_EQ(measuring_ranks(forms, 1), std::vector<int>(forms.size(), 0));
  EXPECT_EQ(measuring_ranks(forms, 2), (std::vector<int>{0, 1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(measuring_ranks(forms, 9), (std::vector<int>{0, 1, 0, 2, 3, 1, 4}));
  EXPECT_EQ(measuring_ranks({}, 2), std::vector<int>{});
}

TEST(MeasuredProfile, isTheSameOnAllRanksAndNoUnitIsLeftOut) {
  Subject subject;
  const Profile profile = measured_profile(world(), subject.graph, subject.bind(), {subject.example}, {.repetitions = 1});
  EXPECT_TRUE(all_agree(world(), to_json(profile)));
  ASSERT_EQ(profile.operators.size(), units_of(subject.graph).size());
  const MeasuredUnits units(subject.graph, subject.bind());
  std::map<std::string, std::set<double>> times;
  double saved = 0;
  for (size_t u = 0; u < profile.operators.size(); ++u) {
    const ProfiledOperator& op = profile.operators[u];
    EXPECT_GT(op.forward.of(6), 0) << op.name;
    EXPECT_EQ(op.backward.of(6) > 0, u > 0) << op.name << ": only the input has no gradient";
    saved += op.saved_bytes.of(6);
    times[units.forms()[u]].insert(op.forward.of(6));
  }
  for (const auto& [form, each] : times) EXPECT_EQ(each.size(), 1U) << "alike, but not measured once:\n" << form;
  EXPECT_LT(times.size(), profile.operators.size());
  const double of_a_layer = testing::on_a_real_device() ? 512 : 6 * 16 * 4;  // CUDA's allocator uses multiples of 512 bytes
  EXPECT_EQ(saved, 5 * of_a_layer) << "what each layer gives, once";
}

TEST(MeasuredProfile, unitsOfOthersAreNotMeasured) {
  Subject subject;
  const MeasuredUnits units(subject.graph, subject.bind());
  std::vector<bool> wanted(units.pieces().size(), false);
  wanted[1] = true;
  const std::vector<UnitCosts> costs = units.costs({subject.example}, wanted, 1);
  for (size_t u = 0; u < costs.size(); ++u) EXPECT_EQ(costs[u].forward_s > 0, wanted[u]) << u;
}

/// Frozen units have no backward pass, although their operators look the same.
TEST(MeasuredProfile, unitsThatAreNotTrainedAreNoneOfThoseThatAre) {
  Subject subject;
  const auto parameters = subject.mlp->named_parameters();
  std::set<std::string> trained;
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].value().requires_grad_(i >= parameters.size() / 2);
    if (i >= parameters.size() / 2) trained.insert(parameters[i].key());
  }
  const Profile profile = measured_profile(world(), subject.graph, subject.bind(), {subject.example}, {.repetitions = 1});
  size_t with_parameters = 0;
  for (const ProfiledOperator& op : profile.operators) {
    if (op.parameters.empty()) continue;
    ++with_parameters;
    const auto name_of = [&](int parameter) { return profile.parameters[static_cast<size_t>(parameter)].name; };
    const bool is_trained = std::ranges::any_of(op.parameters, [&](int parameter) { return trained.contains(name_of(parameter)); });
    EXPECT_EQ(op.backward.of(6) > 0, is_trained) << op.name;
  }
  EXPECT_EQ(with_parameters, parameters.size() / 2) << "weight and bias";
}

/// An input [n, 3] produces n x n products of all rows, in a unit that no cut separates. No line passes through 144 bytes for 6 rows and 36 for 3
/// without a negative value.
TEST(MeasuredProfile, isExactAtTheRowsOfTheExample) {
  const graph::Forward products = [](const std::vector<Tensor>& x) {
    const Tensor all = x[0].matmul(x[0].t()).sin();
    return std::vector<Tensor>{all.cos(), all};
  };
  const Tensor example = testing::place(torch::ones({6, 3}));
  const graph::Graph graph = graph::capture(products, {}, {}, {example});
  const auto none = [](const std::string& name) -> Tensor { throw Error("there is no " + name); };
  const Profile profile = measured_profile(graph, none, {example}, {.repetitions = 1});
  ASSERT_EQ(profile.operators.size(), 2U) << "the transposed rows, and all the rest";
  EXPECT_DOUBLE_EQ(profile.operators[0].output_bytes.of(6), 3 * 6 * 4);
  EXPECT_DOUBLE_EQ(profile.operators[1].output_bytes.of(6), 2 * 6 * 6 * 4) << "the cosine, and the sine that it takes";
  EXPECT_EQ(profile.outputs, std::vector<int>{1});
  EXPECT_THROW((void)measured_profile(graph, none, {example, example}), ContractError);
  EXPECT_THROW((void)measured_profile(graph, none, {}), ContractError);
}

TEST(MeasuredProfile, whatOneRankFindsAllThrow) {
  Subject subject;
  const auto bind = [&, good = subject.bind()](const std::string& name) {
    if (world().rank() == world().size() - 1) throw Error("the last rank has no " + name);
    return good(name);
  };
  try {
    (void)measured_profile(world(), subject.graph, bind, {subject.example}, {.repetitions = 1});
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the last rank has no "), std::string::npos) << error.what();
  }
}

TEST(ProfileCache, isReadInPlaceOfMeasuring) {
  Subject subject;
  const MeasureOptions options{.repetitions = 1, .cache = new_directory("read") / "made"};
  const Profile first = measured_profile(world(), subject.graph, subject.bind(), {subject.example}, options);
  on_first([&] {
    const std::vector<fs::path> files = files_of(options.cache);
    ASSERT_EQ(files.size(), 1U);
    const std::string name = files[0].filename();
    EXPECT_EQ(name.rfind(subject.graph.hash() + '_', 0), 0U) << name;
    const std::string kind = c10::DeviceTypeName(testing::device().type(), /*lower_case=*/true);
    EXPECT_NE(name.find(concat('_', kind, '_', at::get_num_threads(), "threads_", world().size(), "ranks_6rows.json")), std::string::npos) << name;
    Profile marked = first;
    marked.operators[0].forward.fixed = 77;
    std::ofstream(files[0]) << to_json(marked);
  });
  Profile expected = first;
  expected.operators[0].forward.fixed = 77;
  EXPECT_EQ(measured_profile(world(), subject.graph, subject.bind(), {subject.example}, options), expected);
}

TEST(ProfileCache, keepsOthersApart) {
  Subject subject;
  Subject deeper(6);
  Subject frozen;
  frozen.mlp->parameters()[0].requires_grad_(false);
  const MeasureOptions options{.repetitions = 1, .cache = new_directory("apart")};
  (void)measured_profile(world(), subject.graph, subject.bind(), {subject.example}, options);
  (void)measured_profile(world(), subject.graph, subject.bind(), {testing::place(torch::ones({8, 16}))}, options);
  (void)measured_profile(world(), deeper.graph, deeper.bind(), {subject.example}, options);
  (void)measured_profile(world(), frozen.graph, frozen.bind(), {subject.example}, options);
  on_first([&] { EXPECT_EQ(files_of(options.cache).size(), 4U); });
  MeasureOptions together = options;
  together.slices = &world();
  (void)measured_profile(world(), subject.graph, subject.bind(), {subject.example}, together);
  const bool is_alone = world().size() == 1;
  on_first([&] { EXPECT_EQ(files_of(options.cache).size(), is_alone ? 4U : 5U) << "the time of messages counts among ranks with slices"; });
  on_first([&] {
    (void)measured_profile(subject.graph, subject.bind(), {subject.example}, options);
    EXPECT_EQ(files_of(options.cache).size(), is_alone ? 4U : 6U) << "one rank that measures alone is not several at once";
  });
}

// The working directory may change while a model is measured, and before its parts are requested.
TEST(ProfileCache, staysInTheFolderThatWasGiven) {
  Subject subject;
  const fs::path directory = new_directory("relative");
  fs::create_directories(directory.parent_path());
  const fs::path here = fs::current_path();
  const auto measure = [&](const fs::path& cache) {
    const auto wandering = [bind = subject.bind()](const std::string& name) {
      fs::current_path("/");
      return bind(name);
    };
    return measured_profile(world(), subject.graph, wandering, {subject.example}, {.repetitions = 1, .cache = cache});
  };
  fs::current_path(directory.parent_path());
  const Profile made = measure(directory.filename());
  fs::current_path(here);
  on_first([&] { EXPECT_EQ(files_of(directory).size(), 1U); });
  EXPECT_EQ(measure(directory), made) << "read again";
  fs::current_path(here);
}

TEST(ProfileCache, whatIsDamagedOrForeignIsMeasuredAgain) {
  Subject subject;
  Subject deeper(6);
  const MeasureOptions options{.repetitions = 1, .cache = new_directory("damaged")};
  const Profile good = measured_profile(world(), subject.graph, subject.bind(), {subject.example}, options);
  const Profile other = measured_profile(world(), deeper.graph, deeper.bind(), {subject.example}, {.repetitions = 1});
  Profile shorter = other;
  shorter.hash = good.hash;
  for (const std::string& content : {to_json(good).substr(0, 200), std::string(), to_json(other), to_json(shorter)}) {
    fs::path file;
    on_first([&] {
      file = files_of(options.cache).at(0);
      std::ofstream(file) << content;
    });
    ::testing::internal::CaptureStderr();
    const Profile again = measured_profile(world(), subject.graph, subject.bind(), {subject.example}, options);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(again.operators.size(), good.operators.size());
    EXPECT_EQ(again.hash, good.hash);
    on_first([&] {
      EXPECT_NE(said.find(file.string() + " is not a profile of this model"), std::string::npos) << said;
      EXPECT_EQ(profile_from_json(content_of(file)), again);
      EXPECT_EQ(files_of(options.cache).size(), 1U) << "nothing half written is left";
    });
  }
}

// Two workers of a search may measure the same model at the same time, and their trials must have equal stages.
TEST(ProfileCache, keepsTheProfileOfTheFirstProcessToFinish) {
  Subject subject;
  const MeasureOptions options{.repetitions = 1, .cache = new_directory("first")};
  Profile others = measured_profile(world(), subject.graph, subject.bind(), {subject.example}, options);
  others.operators[0].forward.fixed = 77;
  fs::path file;
  on_first([&] {
    file = files_of(options.cache).at(0);
    fs::remove(file);
  });
  size_t calls = 0;
  const auto while_another_finishes = [&, bind = subject.bind(), parameters = subject.mlp->parameters().size()](const std::string& name) {
    if (world().rank() == 0 && calls++ == parameters) std::ofstream(file) << to_json(others);  // the first calls are for the name of the file
    return bind(name);
  };
  EXPECT_EQ(measured_profile(world(), subject.graph, while_another_finishes, {subject.example}, options), others);
  on_first([&] {
    EXPECT_EQ(profile_from_json(content_of(file)), others);
    EXPECT_EQ(files_of(options.cache).size(), 1U) << "nothing half written is left";
  });
}

// In a folder that hosts share, another host's process may have the same id.
TEST(ProfileCache, isWrittenWhileAnotherHostWrites) {
  Subject subject;
  const MeasureOptions options{.repetitions = 1, .cache = new_directory("hosts")};
  const auto measure = [&] { (void)measured_profile(world(), subject.graph, subject.bind(), {subject.example}, options); };
  measure();
  fs::path file;
  on_first([&] {
    file = files_of(options.cache).at(0);
    fs::remove(file);
    fs::create_directory(file.string() + ".of_" + std::to_string(getpid()));  // in the way of a process of this id, were it not for its host
  });
  measure();
  on_first([&] { EXPECT_TRUE(fs::exists(file)); });
}

TEST(ProfileCache, thatCannotBeWrittenIsNamedOnAllRanks) {
  Subject subject;
  const fs::path directory = new_directory("file");
  on_first([&] { std::ofstream(directory) << "in the way"; });
  try {
    (void)measured_profile(world(), subject.graph, subject.bind(), {subject.example}, {.repetitions = 1, .cache = directory});
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(directory.string()), std::string::npos) << error.what();
  }
}

TEST(ProfileCache, isThatOfAPlannedModule) {
  Subject subject;
  const fs::path directory = new_directory("planned");
  const ModelPlanOptions options{.devices = world().size(), .profile_cache = directory};
  const ModelPlan first = plan_together(world(), *subject.mlp, subject.example, options);
  const ModelPlan second = plan_together(world(), *subject.mlp, subject.example, options);
  EXPECT_EQ(first.result().profile, second.result().profile);
  on_first([&] { EXPECT_EQ(files_of(directory).size(), 1U); });
}

}  // namespace measured_profile_test
}  // namespace tw::pipeline
