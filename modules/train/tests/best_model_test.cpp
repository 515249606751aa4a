// SPDX-License-Identifier: Apache-2.0
// The best model in a run's folder: best/ and best.safetensors.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <tw/base/process.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/state/checkpoint.hpp>

#include "models_in_parts.hpp"

namespace best_model_test {

std::mutex synced_mutex;
std::vector<std::string> synced;    // the files and folders that this process has synced, in order
std::atomic<bool> is_slow = false;  // whether models in best/ are slow to write

}  // namespace best_model_test

// Replaces the C library's, which it calls.
extern "C" int fsync(int fd) {
  std::error_code code;
  const auto path = std::filesystem::read_symlink(tw::concat("/proc/self/fd/", fd), code).string();
  if (best_model_test::is_slow && path.find("/best/") != std::string::npos) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::lock_guard lock(best_model_test::synced_mutex);
  best_model_test::synced.push_back(path);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace best_model_test {

namespace fs = std::filesystem;
using namespace tw::testing::parts;
using tw::testing::message_of;
using tw::testing::never;
using tw::testing::squares;
using tw::testing::world;
using tw::train::EpochReport;
using tw::train::Resume;
using tw::train::State;

Options fresh(const std::string& name) {
  Options options = tw::testing::three_epochs(name);
  options.checkpoint.every_epochs = 1;
  options.resume = Resume::fresh;
  return options;
}

Options resumed(Options options) {
  options.resume = Resume::resume;
  return options;
}

/// Records which epochs are reported as the best so far.
struct BestEpochs : tw::train::Hook {
  void on_end_epoch(State& /*state*/, const EpochReport& report) override {
    if (report.best) epochs.push_back(report.epoch);
  }
  std::vector<int64_t> epochs;
};

/// On a communicator of its own, which a run that throws revokes. Each of the three epochs is better than the one before. @param stop_at the run ends
/// after the next update
tw::train::Summary run_with(const Options& options, const std::vector<tw::train::Hook*>& hooks, int64_t stop_at = never) {
  const Mesh mesh(world().split(0, world().rank()), {{"data"}});
  const Model model = tw::testing::make_regressor(0);
  torch::optim::Adam adam(model.tensors(), torch::optim::AdamOptions(0.01));
  const auto data = squares(31);
  Trainer trainer(mesh, model, adam, tw::train::regression(), data, data, options, &data);
  tw::testing::Witness witness(stop_at);
  trainer.add(witness);
  for (tw::train::Hook* hook : hooks) trainer.add(*hook);
  return trainer.run();
}

std::vector<std::string> names_in(const fs::path& folder) {
  world().barrier();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  world().barrier();
  return names;
}

std::string text_of(const fs::path& path) {
  world().barrier();
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  world().barrier();
  return text;
}

/// The epoch of the exported model; "none" if there is no export.
std::string exported_epoch(const Options& options) {
  world().barrier();
  const fs::path path = options.folder() / "best.safetensors";
  const std::string epoch = fs::exists(path) ? tw::SafetensorsFile(path).metadata().at("epoch") : "none";
  world().barrier();
  return epoch;
}

using Names = std::vector<std::string>;

TEST(BestModel, OfTheRunBeforeIsGone) {
  Options options = fresh("best");
  (void)run_with(options, {});
  EXPECT_EQ(names_in(options.folder() / "best"), Names{"step_00000018"});
  EXPECT_EQ(exported_epoch(options), "3");
  options.epochs = 0;  // nothing is evaluated
  (void)run_with(options, {});
  EXPECT_EQ(names_in(options.folder() / "best"), Names{});
  EXPECT_EQ(exported_epoch(options), "none");
}

// A job killed while writing the best model leaves partial files.
TEST(BestModel, PartsOfAKilledRunAreRemoved) {
  Options options = fresh("left");
  const auto file = options.folder() / "best.safetensors.partial1";
  const auto folder = options.folder() / "best" / "step_00000006.partial";
  for (const Resume how : {Resume::fresh, Resume::resume}) {
    if (world().rank() == 0) {
      fs::create_directories(folder);
      std::ofstream(file) << "half";
    }
    world().barrier();
    options.resume = how;
    options.epochs = 0;  // nothing is evaluated
    (void)run_with(options, {});
    world().barrier();
    EXPECT_FALSE(fs::exists(file));
    EXPECT_FALSE(fs::exists(folder));
    world().barrier();
  }
}

// Otherwise a crash of the node could leave its name without its content.
TEST(BestModel, IsSyncedBeforeItGetsItsName) {
  Options options = fresh("synced");
  options.epochs = 1;
  {
    const std::lock_guard lock(synced_mutex);
    synced.clear();
  }
  (void)run_with(options, {});
  const std::lock_guard lock(synced_mutex);
  const auto has_synced = [](const std::string& end) { return std::ranges::any_of(synced, [&](const auto& path) { return path.ends_with(end); }); };
  EXPECT_EQ(has_synced(tw::concat("best.safetensors.partial", tw::process_identity())), world().rank() == 0);
  EXPECT_TRUE(has_synced(tw::concat("best/step_00000006.partial/rank_000", world().rank(), ".safetensors")));
}

// A checkpoint remembers the best epoch. It must not exist before this epoch's model.
TEST(BestModel, IsCompleteBeforeACheckpointRemembersIt) {
  {
    const std::lock_guard lock(synced_mutex);
    synced.clear();
  }
  is_slow = true;
  (void)run_with(fresh("ordered"), {});
  is_slow = false;
  if (world().rank() != 0) return;
  const std::lock_guard lock(synced_mutex);
  for (const char* step : {"step_00000006.partial", "step_00000012.partial", "step_00000018.partial"}) {
    const auto in = [&](const char* folder) {
      return std::ranges::find_if(synced, [&](const auto& path) { return path.find(tw::concat(folder, '/', step)) != std::string::npos; });
    };
    const auto complete = std::find_if(in("best"), synced.end(), [](const auto& path) { return path.ends_with("/best"); });
    EXPECT_NE(complete, synced.end()) << step;
    EXPECT_LT(complete, in("checkpoints")) << step;
  }
}

/// Ends the run as a kill would: when the model of epoch 2 is there, and the checkpoint that remembers it is not.
struct KilledBetween : tw::train::Hook {
  void on_end_epoch(State& state, const EpochReport& report) override {
    if (report.epoch != 2) return;
    bool is_there = false;
    while (!is_there) {
      tw::progress(world());
      is_there = tw::broadcast_object(world(), static_cast<int>(fs::exists(state.options.folder() / "best" / "step_00000012")), tw::Rank(0)) != 0;
    }
    throw std::runtime_error("killed");
  }
};

TEST(BestModel, IsWhatTheRunRemembersAfterAKill) {
  const Options whole = fresh("not_killed");
  BestEpochs expected;
  const auto summary = run_with(whole, {&expected});
  ASSERT_EQ(expected.epochs, (std::vector<int64_t>{1, 2, 3}));

  const Options options = fresh("killed");
  KilledBetween kill;
  EXPECT_NE(message_of([&] { (void)run_with(options, {&kill}); }).find("killed"), std::string::npos);
  EXPECT_EQ(names_in(options.folder() / "checkpoints"), Names{"step_00000006"});
  EXPECT_EQ(names_in(options.folder() / "best"), (Names{"step_00000006", "step_00000012"})) << "the checkpoint remembers the first";

  BestEpochs found;
  EXPECT_EQ(run_with(resumed(options), {&found}, 8).best_epoch, 1);
  EXPECT_EQ(names_in(options.folder() / "best"), Names{"step_00000006"});
  EXPECT_EQ(exported_epoch(options), "1");

  EXPECT_EQ(run_with(resumed(options), {&found}).best, summary.best);
  EXPECT_EQ(found.epochs, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(names_in(options.folder() / "best"), Names{"step_00000018"});
  for (const char* file : {"best.safetensors", "best/step_00000018/index.json", "checkpoints/step_00000018/index.json"}) {
    EXPECT_TRUE(text_of(options.folder() / file) == text_of(whole.folder() / file)) << file;
  }
}

// A damaged checkpoint sends the run back further. The models of later steps, and their export, are then of evaluations that it repeats.
TEST(BestModel, OfALaterStepIsForgotten) {
  Options options = fresh("went_back");
  options.checkpoint.keep = 3;
  (void)run_with(options, {}, 13);
  ASSERT_EQ(exported_epoch(options), "2");
  for (const char* step : {"step_00000012", "step_00000014"}) {
    if (world().rank() == 0) fs::resize_file(options.folder() / "checkpoints" / step / "rank_0000.safetensors", 9);
  }
  world().barrier();
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_with(resumed(options), {}, 8).best_epoch, 0) << "the model of epoch 1, which the checkpoint remembers, is not there any more";
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines.find("the best model, of epoch 1, is not in") != std::string::npos, world().rank() == 0) << lines;
  EXPECT_EQ(names_in(options.folder() / "best"), Names{});
  EXPECT_EQ(exported_epoch(options), "none");
  EXPECT_EQ(run_with(resumed(options), {}).best_epoch, 3);
  EXPECT_EQ(exported_epoch(options), "3");
}

// Its export is another copy.
TEST(BestModel, ThatIsDamagedIsTheExportedOne) {
  const Options options = fresh("damaged");
  (void)run_with(options, {}, 13);
  const std::string file = text_of(options.folder() / "best.safetensors");
  if (world().rank() == 0) fs::resize_file(options.folder() / "best" / "step_00000012" / "rank_0000.safetensors", 9);
  world().barrier();
  EXPECT_EQ(run_with(resumed(options), {}, 15).best_epoch, 2);
  EXPECT_TRUE(text_of(options.folder() / "best.safetensors") == file);
  EXPECT_EQ(names_in(options.folder() / "best"), Names{});
  EXPECT_EQ(run_with(resumed(options), {}).best_epoch, 3);
  EXPECT_EQ(exported_epoch(options), "3");
}

/// Makes the model of an epoch impossible to write.
struct NoPlaceForAModel : tw::train::Hook {
  explicit NoPlaceForAModel(int64_t of) : epoch(of) {}
  void on_start_epoch(State& state) override {
    if (state.epoch != epoch) return;
    const std::string name = epoch == 1 ? "step_00000006.partial" : "step_00000012.partial";
    if (world().rank() == 0) std::ofstream(state.options.folder() / "best" / name) << "not a folder";
    world().barrier();
  }
  int64_t epoch;
};

TEST(BestModel, ThatIsNotWrittenIsNotTheBestAfterAResume) {
  const Options options = fresh("not_written");
  NoPlaceForAModel first(1);
  NoPlaceForAModel second(2);
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_with(options, {&first}, 8).best_epoch, 1) << "training goes on";
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines.find("this best model is not kept") != std::string::npos, world().rank() == 0) << lines;
  EXPECT_EQ(run_with(resumed(options), {}, 10).best_epoch, 0) << "no model is there";

  EXPECT_EQ(run_with(options, {&second}, 13).best_epoch, 2);
  EXPECT_EQ(names_in(options.folder() / "best"), Names{"step_00000006"});
  EXPECT_EQ(exported_epoch(options), "1");
  EXPECT_EQ(run_with(resumed(options), {}, 15).best_epoch, 1);
  EXPECT_EQ(run_with(resumed(options), {}).best_epoch, 3);
  EXPECT_EQ(exported_epoch(options), "3");
}

/// Ends the run as a kill would, after an epoch.
struct KilledAfter : tw::train::Hook {
  explicit KilledAfter(int64_t at) : epoch(at) {}
  void on_end_epoch(State& /*state*/, const EpochReport& report) override {
    if (report.epoch == epoch) throw std::runtime_error("killed");
  }
  int64_t epoch;
};

// However many better ones are found before the next checkpoint.
TEST(BestModel, OfTheNewestCheckpointStays) {
  Options options = fresh("stays");
  options.checkpoint.every_epochs = 0;
  options.checkpoint.every_steps = 9;
  KilledAfter kill(3);
  EXPECT_NE(message_of([&] { (void)run_with(options, {&kill}); }).find("killed"), std::string::npos);
  EXPECT_EQ(run_with(resumed(options), {}, 10).best_epoch, 1);
}

// A run of a version that had no best/. The file stays until a checkpoint remembers another model.
TEST(BestModel, InAFileAloneStays) {
  const Options options = fresh("file_alone");
  (void)run_with(options, {}, 8);
  const std::string file = text_of(options.folder() / "best.safetensors");
  const auto is_there = [&] { return text_of(options.folder() / "best.safetensors") == file; };
  if (world().rank() == 0) fs::remove_all(options.folder() / "best");
  world().barrier();
  EXPECT_EQ(run_with(resumed(options), {}, 10).best_epoch, 1);
  EXPECT_TRUE(is_there());

  Options rarely = resumed(options);
  rarely.checkpoint.every_epochs = 0;
  rarely.checkpoint.every_steps = 100;
  KilledAfter kill(3);
  EXPECT_NE(message_of([&] { (void)run_with(rarely, {&kill}); }).find("killed"), std::string::npos);
  EXPECT_TRUE(is_there()) << "two better models are, and no checkpoint remembers them";

  NoPlaceForAModel fault(2);
  EXPECT_EQ(run_with(resumed(options), {&fault}, 13).best_epoch, 2);
  EXPECT_TRUE(is_there()) << "the better one was not written";
  const auto continued = run_with(resumed(options), {}, 15);
  EXPECT_EQ(continued.best_epoch, 1);
  EXPECT_GT(continued.best, run_with(resumed(options), {}).best);
  EXPECT_EQ(exported_epoch(options), "3");
}

/// Elements in this rank's file of the model, and in the files of all ranks.
std::pair<int64_t, int64_t> elements_in_files(const Options& options) {
  world().barrier();
  const tw::Checkpoint best = tw::Checkpoint::open(options.folder() / "best");
  std::vector<int64_t> elements;
  for (int64_t rank = 0; rank < static_cast<int64_t>(best.index().files.size()); ++rank) {
    const tw::SafetensorsFile file(best.directory() / tw::file_name(rank));
    int64_t& sum = elements.emplace_back(0);
    for (const std::string& name : file.names()) sum += file.spec(name).numel();
  }
  return {elements.at(static_cast<size_t>(int{world().rank()})), std::accumulate(elements.begin(), elements.end(), int64_t{0})};
}

// However the ranks hold the model. Each writes a part that no other writes.
TEST(BestModel, EqualsThatOfOneProcess) {
  const Options of_one = fresh(tw::concat("best_of_rank_", world().rank()));
  const auto expected = train(alone(), model_of(whole_net()), of_one).summary;
  ASSERT_GT(expected.best_epoch, 0);
  const auto check = [&](const Mesh& mesh, const Model& model, Options options) {
    const std::string what = mesh.shape().describe() + ' ' + options.name;
    (void)train(mesh, model, options);
    const auto [here, together] = elements_in_files(options);
    EXPECT_GT(here, 0) << what;
    EXPECT_EQ(together, expected.parameters) << what;
    const tw::SafetensorsFile ours(options.folder() / "best.safetensors");
    if (options.replicas.meet == tw::train::Meeting::local_sgd) {  // another algorithm; its last epoch is the best
      EXPECT_EQ(ours.metadata().at("epoch"), "3") << what;
      for (const tw::NamedTensor& each : model.parameters) EXPECT_TRUE(ours.tensor(each.name).equal(each.tensor)) << what << each.name;
      world().barrier();
      return;
    }
    const tw::SafetensorsFile reference(of_one.folder() / "best.safetensors");
    EXPECT_EQ(ours.metadata().at("epoch"), reference.metadata().at("epoch")) << what;
    EXPECT_EQ(ours.names().size(), reference.names().size()) << what;
    for (const std::string& name : reference.names()) EXPECT_TRUE(ours.tensor(name).allclose(reference.tensor(name), 0, tolerance)) << what << name;
    world().barrier();
  };
  const int all = world().size();
  check({world(), {{"data"}}}, model_of(whole_net()), fresh("best_of_data"));
  check({world(), {{"data"}, {"shard", all}}}, model_of(whole_net()), fresh("best_of_shards"));
  Options updates = fresh("best_of_sharded_updates");
  updates.shard.what = tw::train::Sharded::optimizer;
  check({world(), {{"data"}, {"shard", all}}}, model_of(whole_net()), updates);
  const Mesh stages(world(), {{"data"}, {"tensor", 1}, {"stage", all}});
  check(stages, model_of(split_model(split_pipeline(stages))), fresh("best_of_stages"));
  Options seldom = fresh("best_of_local_sgd");
  seldom.replicas = {.meet = tw::train::Meeting::local_sgd, .period = 4};
  check({world(), {{"data"}}}, model_of(whole_net()), seldom);
}

constexpr int64_t width = 600;

/// The most memory that this rank holds in two epochs of a pipeline with two layers a stage. @param bytes of one layer
int64_t peak_of_stages(const std::string& name, bool validates, int64_t& bytes) {
  const Mesh mesh(world(), {{"data"}, {"stage", world().size()}});
  const std::vector<tw::pipeline::BlockFactory> blocks(static_cast<size_t>(2 * world().size()),
                                                       tw::pipeline::block([] { return torch::nn::Linear(width, width); }));
  const auto schedule = tw::pipeline::one_forward_one_backward(world().size(), 2);
  auto net = std::make_shared<tw::pipeline::Pipeline>(mesh["stage"], blocks, tw::pipeline::PipelineOptions{.schedule = schedule});
  net->to(torch::kDouble);
  const Model model = model_of(net);
  torch::optim::SGD sgd(model.tensors(), 1e-3);
  torch::manual_seed(5);
  const tw::TensorDataset data(torch::rand({4, width}, torch::kDouble), torch::rand({4, width}, torch::kDouble));
  Options options = fresh(name);
  options.epochs = 2;
  options.global_batch = 4;
  options.accumulation = 1;
  bytes = 8 * (width * width + width);
  const auto summary = Trainer(mesh, model, sgd, tw::train::regression(), data, data, options, validates ? &data : nullptr).run();
  EXPECT_EQ(summary.best_epoch > 0, validates);
  return summary.memory.at(static_cast<size_t>(int{world().rank()})).held.together();
}

TEST(BestModel, IsNotGatheredByAnyRank) {
  if (world().size() == 1) GTEST_SKIP() << "one rank has the whole model";
  int64_t layer = 0;
  const int64_t without = peak_of_stages("not_kept", false, layer);
  const int64_t with = peak_of_stages("not_gathered", true, layer);
  EXPECT_LE(with - without, 2 * layer + layer + layer / 2) << "the copy of two layers, and one that is exported";
}

}  // namespace best_model_test
