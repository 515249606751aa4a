// SPDX-License-Identifier: Apache-2.0
// Layers in parallel and the same layers in a plain module exchange files: what one has saved, the other loads, on meshes with an axis `layer`.
// Tolerance of outputs: 1e-12 relative, in float64; iterations are exact. Parameters are equal to the bit.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <tw/parallel_model.hpp>
#include <tw/state.hpp>
#include <tw/tensor/safetensors.hpp>

namespace layer_names_test {

using namespace tw::layer_parallel;
using tw::NamedShard;
using tw::NamedTensor;
using tw::ParallelModel;
using tw::testing::message_of;
using tw::testing::world;

using Axes = std::vector<tw::MeshAxis>;
const std::vector<Axes> shapes{{{"layer", -1}}, {{"data", 2}, {"layer", 2}}, {{"shard", 2}, {"layer", 2}}, {{"stage", 2}, {"layer", 2}}};

/// du/dt of a step.
struct RateImpl : torch::nn::Module {
  RateImpl() : linear(register_module("linear", torch::nn::Linear(6, 6))), scale(register_buffer("scale", torch::full({1}, 0.5))) {
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& u) { return torch::tanh(linear(u) * scale); }
  torch::nn::Linear linear;
  at::Tensor scale;
};
TORCH_MODULE(Rate);

torch::nn::Linear linear(int64_t in, int64_t out) {
  torch::nn::Linear made(in, out);
  made->to(torch::kDouble);
  return made;
}

const std::vector<int64_t> counts{1, 5, 1, 4, 1};

std::vector<Block> blocks() {
  const auto plain = [](int64_t in, int64_t out) { return block([=] { return linear(in, out); }, 1); };
  const auto steps = [](int64_t count) { return block([] { return Rate(); }, count); };
  return {plain(4, 6), steps(counts[1]), plain(6, 6), steps(counts[3]), plain(6, 3)};
}

const LayerParallelOptions exact{.coarsening = 2, .min_coarse = 1, .forward = {.iterations = 3}, .backward = {.iterations = 3}, .seed = 8};

/// The user's own module: the same layers, without Torchweave.
struct PlainImpl : torch::nn::Module {
  PlainImpl() {
    for (size_t i = 0; i < counts.size(); ++i) {
      const std::string name = std::to_string(i);
      if (counts[i] > 1) {
        torch::nn::Sequential& steps = blocks.emplace_back(register_module(name, torch::nn::Sequential()));
        for (int64_t k = 0; k < counts[i]; ++k) steps->push_back(Rate());
      } else {
        blocks.emplace_back();
        lines.emplace(i, register_module(name, linear(i == 0 ? 4 : 6, i + 1 == counts.size() ? 3 : 6)));
      }
    }
  }
  at::Tensor forward(at::Tensor u) {
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 1) {
        u = lines.at(i)(u);
        continue;
      }
      for (size_t k = 0; k < blocks[i]->size(); ++k) u = u + blocks[i]->ptr<RateImpl>(k)->forward(u) / static_cast<double>(counts[i]);
    }
    return u;
  }
  std::vector<torch::nn::Sequential> blocks;
  std::map<size_t, torch::nn::Linear> lines;
};
TORCH_MODULE(Plain);

Plain make_plain(uint64_t seed) {
  torch::manual_seed(seed);
  Plain plain;
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& each : plain->buffers()) each.uniform_(0.3, 0.7);
  return plain;
}

std::vector<NamedTensor> tensors_of(const torch::nn::Module& module, const std::string& prefix = "") {
  std::vector<NamedTensor> all;
  for (const auto& each : module.named_parameters()) all.push_back({prefix + each.key(), each.value().detach()});
  for (const auto& each : module.named_buffers()) all.push_back({prefix + each.key(), each.value()});
  return all;
}

at::Tensor inputs() { return torch::linspace(-1, 1, 24, torch::kDouble).reshape({6, 4}); }
at::Tensor targets() { return torch::linspace(0, 1, 18, torch::kDouble).reshape({6, 3}); }

ParallelModel divide(const tw::Mesh& mesh) { return tw::parallelize(mesh, blocks(), {inputs()}, exact, {.unit_bytes = 500}); }

/// Every rank has all samples, and the model's output for them.
void expect_output(ParallelModel& model, const at::Tensor& expected, const std::string& what) {
  EXPECT_LE((model.forward(inputs()) - expected).norm().item<double>(), 1e-12 * expected.norm().item<double>()) << what;
}

void expect_equal(const std::vector<NamedTensor>& found, const torch::nn::Module& expected, const std::string& what) {
  const std::vector<NamedTensor> all = tensors_of(expected);
  EXPECT_EQ(found.size(), all.size()) << what;
  for (const auto& [name, tensor] : all) {
    const auto same = std::ranges::find(found, name, &NamedTensor::name);
    ASSERT_NE(same, found.end()) << what << ": " << name;
    EXPECT_TRUE(same->tensor.equal(tensor)) << what << ": " << name;
  }
}

class LayerNames : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = std::filesystem::path(std::getenv("TEST_TMPDIR")) / "layer_names"; }
  void TearDown() override {
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove_all(folder_);
    world().barrier();
  }
  /// On rank 0, before any rank continues.
  std::filesystem::path write(const std::string& name, const std::vector<NamedTensor>& tensors) const {
    std::filesystem::create_directories(folder_);
    if (world().rank() == 0) tw::write_safetensors(folder_ / name, tensors);
    world().barrier();
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

TEST_F(LayerNames, ArePlainModulesNamesInExports) {
  for (const Axes& axes : shapes) {
    const tw::Mesh mesh(world(), axes);
    const std::string what = mesh.shape().describe();
    ParallelModel model = divide(mesh);
    torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    model.train_step(inputs(), targets(), torch::nn::MSELoss());
    model.step(sgd);
    tw::CheckpointStore store(world(), folder_, {.background = false});
    model.save(store, 1, sgd);
    store.wait();
    const at::Tensor y = model.forward(inputs());
    const std::vector<NamedTensor> whole = model.whole_on_root();
    EXPECT_EQ(whole.empty(), world().rank() != 0) << what;
    world().barrier();
    const auto expect_plain_names = [&] {
      const tw::Checkpoint checkpoint = tw::Checkpoint::open(folder_);
      tw::export_for_libtorch(checkpoint, folder_ / "model.pt");
      tw::export_safetensors(checkpoint, folder_ / "model.safetensors");
      Plain plain = make_plain(1);
      torch::load(plain, (folder_ / "model.pt").string());
      const auto serial = std::make_shared<SerialNetwork>(blocks(), exact);
      torch::load(serial, (folder_ / "model.pt").string());
      for (const at::Tensor& output : {plain(inputs()), serial->forward(inputs())}) {
        EXPECT_LE((output - y).norm().item<double>(), 1e-12 * y.norm().item<double>()) << what;
      }
      const tw::SafetensorsFile file(folder_ / "model.safetensors");
      std::vector<NamedTensor> exported;
      for (const std::string& name : file.names()) exported.push_back({name, file.tensor(name)});
      expect_equal(exported, *plain, what + ", safetensors");
      expect_equal(whole, *plain, what + ", whole_on_root()");
      EXPECT_EQ(file.metadata().at("0.0.weight"), "0.weight");
    };
    if (world().rank() == 0) {
      EXPECT_NO_THROW(expect_plain_names()) << what;
    }
    world().barrier();
  }
}

TEST_F(LayerNames, AreReadFromAPlainModulesFiles) {
  Plain plain = make_plain(77);
  const at::Tensor y = plain(inputs());
  std::vector<NamedTensor> parts[2];  // layers of one stack lie in two files
  for (const NamedTensor& each : tensors_of(*plain, "net.")) parts[parts[0].size() > parts[1].size() ? 1 : 0].push_back(each);
  const std::vector<std::filesystem::path> own{write("first.safetensors", parts[0]), write("second.safetensors", parts[1])};

  const auto serial = std::make_shared<SerialNetwork>(blocks(), exact);
  std::vector<NamedTensor> stacks;
  {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < counts.size(); ++i) {
      for (const auto& [name, tensor] : tensors_of(*serial->layers(i)[0].module)) {
        std::vector<at::Tensor> layers;
        for (int64_t k = 0; k < counts[i]; ++k) {
          const std::string plain_name = counts[i] == 1 ? tw::concat(i, '.', name) : tw::concat(i, '.', k, '.', name);
          const std::vector<NamedTensor> all = tensors_of(*plain);
          layers.push_back(std::ranges::find(all, plain_name, &NamedTensor::name)->tensor);
          for (const NamedTensor& each : tensors_of(*serial->layers(i)[static_cast<size_t>(k)].module)) {
            if (each.name == name) each.tensor.copy_(layers.back());
          }
        }
        stacks.push_back({tw::concat(i, '.', name), counts[i] == 1 ? layers[0] : torch::stack(layers)});
      }
    }
  }
  const auto of_serial = write("serial.safetensors", tensors_of(*serial));
  const auto of_stacks = write("stacks.safetensors", stacks);

  const auto own_names = [](const std::string& name) { return "net." + name; };
  // A table of the other program's names: what it does not have is left out.
  std::set<std::string> table;
  for (const NamedTensor& each : tensors_of(*plain)) table.insert(each.name);
  const auto from_table = [&](const std::string& name) { return table.contains(name) ? "net." + name : ""; };
  for (const Axes& axes : shapes) {
    const tw::Mesh mesh(world(), axes);
    const std::string what = mesh.shape().describe();
    const auto expect_loads = [&](const std::vector<std::filesystem::path>& files, const std::function<std::string(const std::string&)>& names,
                                  const char* whose) {
      ParallelModel model = divide(mesh);
      (void)model.forward(inputs());
      EXPECT_NO_THROW(model.load(files, names)) << what << ", " << whose;
      expect_output(model, y, what + ", " + whose);
      if (const auto whole = model.whole_on_root(); world().rank() == 0) expect_equal(whole, *plain, what + ", " + whose);
    };
    expect_loads(own, own_names, "the user's module");
    expect_loads(own, from_table, "a table of names");
    expect_loads({of_serial}, {}, "SerialNetwork");
    expect_loads({of_stacks}, {}, "stacks");
  }
}

TEST_F(LayerNames, LeadAnExportBackIntoASerialNetwork) {
  const tw::Mesh mesh(world(), {{"layer", -1}});
  ParallelModel layers = divide(mesh);
  torch::optim::SGD sgd(layers.parameters(), 0.1);
  layers.train_step(inputs(), targets(), torch::nn::MSELoss());
  layers.step(sgd);
  tw::CheckpointStore store(world(), folder_, {.background = false});
  layers.save(store, 1, sgd);
  store.wait();
  if (world().rank() == 0) tw::export_safetensors(tw::Checkpoint::open(folder_), folder_ / "model.safetensors");
  world().barrier();
  const auto serial = std::make_shared<SerialNetwork>(blocks(), exact);
  const auto forward = [serial](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{serial->forward(in.at(0))}; };
  ParallelModel model = tw::parallelize(tw::Mesh(world(), {{"data", -1}}), serial, forward, {inputs()});
  model.load({folder_ / "model.safetensors"});
  expect_output(model, layers.forward(inputs()), "plain layers by the names in the file's metadata");
}

TEST_F(LayerNames, OfMissingLayersAreInTheErrorOnEveryRank) {
  Plain plain = make_plain(77);
  std::vector<NamedTensor> tensors = tensors_of(*plain);
  std::erase_if(tensors, [](const NamedTensor& each) { return each.name == "1.4.linear.weight"; });
  const auto without_last = write("last.safetensors", tensors);  // the last layer of the block, on another rank than the first
  std::erase_if(tensors, [](const NamedTensor& each) { return each.name.starts_with("3."); });
  std::ranges::find(tensors, "1.0.linear.bias", &NamedTensor::name)->tensor = torch::zeros({7}, torch::kDouble);
  const auto broken = write("broken.safetensors", tensors);

  const tw::Mesh mesh(world(), {{"layer", -1}});
  ParallelModel model = divide(mesh);
  const at::Tensor before = model.forward(inputs());
  const auto expect_error = [&](const std::filesystem::path& file, const std::string& part) {
    const std::string error = message_of([&] { model.load({file}); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect_error(without_last, "there is no '1.linear.weight'; there is no '1.4.linear.weight'");
  expect_error(broken, "'1.0.linear.bias' has the shape [7], but '1.0.linear.bias' has [6]");
  expect_error(broken, "there is no '3.linear.bias'; there is no '3.0.linear.bias'");
  expect_output(model, before, "nothing is changed");
}

// As all checkpoints were before stacks had names of layers.
TEST_F(LayerNames, MayBeMissingInACheckpoint) {
  const tw::Mesh mesh(world(), {{"data", 2}, {"layer", 2}});
  ParallelModel model = divide(mesh);
  torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  model.train_step(inputs(), targets(), torch::nn::MSELoss());
  model.step(sgd);
  std::vector<NamedShard> shards = model.shards();
  for (const NamedShard& each : tw::OptimizerState(sgd, model.optimized()).shards()) shards.push_back(each);
  for (NamedShard& each : shards) each.drop_other_names();
  tw::CheckpointStore store(world(), folder_, {.background = false});
  store.save(1, shards, "old");
  const at::Tensor y = model.forward(inputs());
  for (const Axes& axes : shapes) {
    ParallelModel another = divide(tw::Mesh(world(), axes));
    torch::optim::SGD other_sgd(another.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    EXPECT_EQ(another.load(store, 1, other_sgd), "old");
    expect_output(another, y, tw::MeshShape(world().size(), axes).describe());
  }
}

}  // namespace layer_names_test
