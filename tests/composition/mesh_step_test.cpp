// SPDX-License-Identifier: Apache-2.0
// ParallelModel::step(): clipping, scaled losses and gradients that are not finite, over the whole mesh. Compressed gradients along `data`.
#include "mpi_test.hpp"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/gradients/compression.hpp>

#include "mesh/compare.hpp"

namespace mesh_step_test {

using namespace tw::testing::mesh;
using tw::testing::message_of;
using tw::testing::world;

/// Two of the table's models, one of them with split layers.
std::vector<TableModel> models() {
  std::vector<TableModel> models = table_models();
  std::erase_if(models, [](const TableModel& model) { return model.name != "tied" && model.name != "split blocks"; });
  return models;
}

tw::ParallelOptions with_the_same_stages(tw::ParallelOptions options) {
  options.profile_cache = std::filesystem::path(std::getenv("TEST_TMPDIR")) / "mesh_step";
  return options;
}

/// A model on a mesh, and its optimizer. All with one model have the same stages.
struct Training {
  Training(const TableModel& of, const tw::MeshShape& shape, const tw::ParallelOptions& options = {.micro_batches = 2})
      : model(of), mesh(world(), shape.axes()), parallel(of.parallel(mesh, with_the_same_stages(options))), sgd(parallel.model.parameters(), 0.1) {}

  Batch batch(int update) const {
    torch::manual_seed(static_cast<uint64_t>(100 * update + parallel.model.place()));
    return model.batch(4);
  }
  double pass(const Batch& batch, double scale = 1) {
    sgd.zero_grad();
    return parallel.model.train_step(batch.inputs, batch.targets, model.loss().scaled_by(scale));
  }
  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> values;
    for (const at::Tensor& each : parallel.model.parameters()) values.push_back(each.detach().clone());
    return values;
  }

  const TableModel& model;
  tw::Mesh mesh;
  Parallel parallel;
  torch::optim::SGD sgd;
};

/// Calls `check` for the cells that are promised to be equal.
template <class Check>
void for_each_cell(const Check& check) {
  for (const TableModel& model : models()) {
    for (const tw::MeshShape& shape : shapes_of(world().size())) {
      if (promise_of(model, shape).kind != Promise::Kind::equal) continue;
      SCOPED_TRACE(model.name + " on " + shape.describe());
      check(model, shape);
    }
  }
}

double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, ((a[i] - b[i]).norm() / b[i].norm().clamp_min(1e-3)).item<double>());
  return most;
}

TEST(MeshStep, IsClippingAndAnUpdate) {
  for_each_cell([](const TableModel& model, const tw::MeshShape& shape) {
    for (const double max_norm : {0.0, 0.05}) {
      const double tolerance = max_norm > 0 ? 1e-6 : 1e-12;  // clipping adds 1e-6 to a norm, here to a scaled one
      Training expected(model, shape);
      Training ours(model, shape);
      tw::LossScaler scaler;
      for (int update = 0; update < 2; ++update) {
        const double loss = expected.pass(expected.batch(update));
        if (max_norm > 0) expected.parallel.model.clip_grad_norm(max_norm);
        expected.sgd.step();
        EXPECT_NEAR(ours.pass(ours.batch(update), scaler.scale()), loss, tolerance * std::abs(loss)) << "values are not scaled";
        EXPECT_TRUE(ours.parallel.model.step(ours.sgd, {.max_norm = max_norm, .scaler = &scaler}));
      }
      EXPECT_LE(distance(ours.values(), expected.values()), max_norm > 0 ? tolerance : 0) << "a scale that is a power of two rounds nothing";
    }
  });
}

TEST(MeshStep, IsLeftOutOnAllRanksWhereAGradientIsNotFinite) {
  for_each_cell([](const TableModel& model, const tw::MeshShape& shape) {
    Training training(model, shape);
    tw::LossScaler scaler;
    const std::vector<at::Tensor> before = training.values();
    Batch batch = training.batch(0);
    if (training.parallel.model.place() == training.parallel.model.places() - 1)
      batch.inputs[0].flatten()[0] = std::numeric_limits<double>::infinity();
    training.pass(batch, scaler.scale());
    EXPECT_FALSE(training.parallel.model.step(training.sgd, {.scaler = &scaler}));
    EXPECT_EQ(scaler.scale(), tw::LossScalerOptions().scale / 2);
    EXPECT_EQ(distance(training.values(), before), 0);
    training.pass(training.batch(1), scaler.scale());
    EXPECT_TRUE(training.parallel.model.step(training.sgd, {.scaler = &scaler}));
    if (!before.empty()) {
      EXPECT_GT(distance(training.values(), before), 0);
    }
  });
}

TEST(MeshCompression, KeepsHoldersEqual) {
  for_each_cell([](const TableModel& model, const tw::MeshShape& shape) {
    if (along(shape, "data") == 1 || along(shape, "shard") > 1) return;
    Training exact(model, shape);
    Training compressed(model, shape, {.micro_batches = 2, .compressor = tw::half_compression(tw::HalfPrecision::bfloat16)});
    for (Training* each : {&exact, &compressed}) {
      for (int update = 0; update < 3; ++update) {
        each->pass(each->batch(update));
        EXPECT_TRUE(each->parallel.model.step(each->sgd));
      }
    }
    EXPECT_EQ(differing(world(), compressed.parallel.model.shards()), "");
    const double difference = distance(compressed.values(), exact.values());
    EXPECT_GT(difference, 0);
    EXPECT_LT(difference, 0.02);
  });
}

TEST(MeshCompression, IsRefusedWhereItCannotBe) {
  const TableModel model = models().front();
  const auto refusal = [&](const tw::MeshAxis& axis, const tw::ParallelOptions& options) {
    return message_of([&] { Training(model, tw::MeshShape(world().size(), {axis}), options); });
  };
  const auto halves = tw::half_compression(tw::HalfPrecision::float16);
  EXPECT_NE(refusal({"shard", world().size()}, {.compressor = halves}).find("gradients along `shard` cannot be compressed"), std::string::npos);
  EXPECT_NE(refusal({"data", world().size()}, {.replicas = tw::ReplicaSync::independent, .compressor = halves}).find("train independently"),
            std::string::npos);
}

using MakeCompressor = std::function<std::shared_ptr<tw::Compressor>()>;

TEST(MeshCompression, RefusesResidualsOnEveryMesh) {
  const std::vector<MakeCompressor> all{[] { return tw::top_k_compression(); }, [] { return tw::power_sgd_compression(); }};
  size_t cell = 0;
  for_each_cell([&](const TableModel& model, const tw::MeshShape& shape) {
    const bool has_shard = along(shape, "shard") > 1;
    if (along(shape, "data") == 1 && !has_shard) return;
    const std::string error = message_of([&] { Training(model, shape, {.micro_batches = 2, .compressor = all[cell++ % all.size()]()}); });
    EXPECT_NE(error.find(has_shard ? "gradients along `shard` cannot be compressed" : "without residuals only"), std::string::npos) << error;
  });
}

/// A model in parts, in addition to an axis `data`, which a separate DataParallel reduces.
struct Parts {
  std::shared_ptr<torch::nn::Module> module;
  std::function<void(const at::Tensor& x, const at::Tensor& t, tw::DataParallel& parallel)> pass;
};

/// Split layers, layers in parallel, and stages, as the second axis of `mesh` requires.
Parts parts_on(const tw::Mesh& mesh) {
  const std::string axis = mesh.shape().axes().back().name;
  torch::manual_seed(14);
  if (axis == "tensor") {
    torch::nn::Sequential net(Ends(6, 8), Branch(&mesh[axis], 0), Ends(8, 6));
    net->to(torch::kDouble);
    return {net.ptr(),
            [net](const at::Tensor& x, const at::Tensor& t, tw::DataParallel&) mutable { torch::mse_loss(net->forward(x), t).backward(); }};
  }
  if (axis == "layer") {
    const auto net = std::make_shared<tw::layer_parallel::LayerParallel>(mesh[axis], layer_blocks(nullptr, 0, TensorType()), exact_layers());
    return {net, [net](const at::Tensor& x, const at::Tensor& t, tw::DataParallel&) { torch::mse_loss(net->forward(x), t).backward(); }};
  }
  const auto net = std::make_shared<tw::pipeline::Pipeline>(
      mesh[axis], branches(nullptr, 0, TensorType()),
      tw::pipeline::PipelineOptions{.schedule = tw::pipeline::one_forward_one_backward(mesh[axis].size(), 2)});
  return {net, [net](const at::Tensor& x, const at::Tensor& t, tw::DataParallel& parallel) {
            {
              const auto held = parallel.no_sync();
              net->run(x, t, [](const at::Tensor& y, const at::Tensor& u) { return torch::mse_loss(y, u); });
            }
            parallel.join_backward();
          }};
}

/// What the ranks of an axis have left out of a gradient's sum.
at::Tensor left_out(const tw::Communicator& data, const std::shared_ptr<tw::Compressor>& compressor, const tw::NamedTensor& parameter) {
  const at::Tensor all = torch::zeros_like(parameter.tensor.detach());
  for (const tw::NamedShard& each : compressor ? compressor->shards() : std::vector<tw::NamedShard>()) {
    if (each.name == "compression/" + parameter.name + "/residual") all.add_(each.tensor);
  }
  tw::allreduce(data, all, tw::ReduceOp::sum);
  return all;
}

/// The parameters after some updates. All holders of one must have the same bits, and nothing may be lost: less what residuals hold, the sum of all
/// updates is that of all gradients. (Of a parameter that ranks along `tensor` replicate, the first holder's residuals count.)
std::vector<at::Tensor> trained_with(const tw::Mesh& mesh, const std::shared_ptr<tw::Compressor>& compressor) {
  constexpr double rate = 0.05;
  const tw::Communicator& data = mesh["data"];
  const Parts parts = parts_on(mesh);
  tw::DataParallel parallel(data, *parts.module, {.reduction = tw::Reduction::mean, .compressor = compressor});
  const std::vector<tw::NamedTensor>& parameters = parallel.parameters();
  std::vector<at::Tensor> expected;
  for (const auto& [name, tensor] : parameters) {
    expected.push_back(tensor.detach().clone());
    tensor.register_hook([sum = expected.back(), ranks = data.size()](const at::Tensor& gradient) { sum.sub_(gradient.detach(), rate / ranks); });
    if (data.rank() > 0) expected.back().zero_();
  }
  torch::optim::SGD sgd(parts.module->parameters(), rate);
  for (int update = 0; update < 4; ++update) {
    torch::manual_seed(static_cast<uint64_t>(10 * update + data.rank()));
    const at::Tensor x = torch::randn({4, 6}, torch::kDouble);
    sgd.zero_grad();
    parts.pass(x, torch::sin(x), parallel);
    sgd.step();
  }
  const auto slices = tw::slices_by_name(*parts.module);
  const tw::ModelPartsList model = tw::model_parts(*parts.module);
  std::vector<tw::NamedShard> shards;
  std::vector<at::Tensor> values;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, tensor] = parameters[i];
    values.push_back(tensor.detach().clone());
    tw::allreduce(data, expected[i], tw::ReduceOp::sum);
    expected[i].add_(left_out(data, compressor, parameters[i]), rate);
    if (!tw::is_counted_elsewhere(model, name)) {
      EXPECT_LE((values[i] - expected[i]).norm().item<double>(), 1e-12 * std::max(1.0, expected[i].norm().item<double>())) << name;
    }
    shards.push_back(tw::whole(name, values[i], tw::ShardKind::parameter));
    if (const auto slice = slices.find(name); slice != slices.end()) shards.back().offsets = slice->second.offsets;
  }
  EXPECT_EQ(differing(slices.empty() ? data : world(), shards), "");
  return values;
}

TEST(MeshCompression, WithResidualsLosesNothingBesideParts) {
  for (const char* axis : {"tensor", "layer", "stage"}) {
    const tw::Mesh mesh(world(), {{"data", 2}, {axis, 2}});
    const std::vector<at::Tensor> exact = trained_with(mesh, nullptr);
    for (const auto& compressor : {tw::top_k_compression({.fraction = 1}), tw::power_sgd_compression({.rank = 100}),
                                   tw::top_k_compression({.fraction = 0.2}), tw::power_sgd_compression({.rank = 1})}) {
      SCOPED_TRACE(tw::concat(mesh.shape().describe(), ", ", compressor->describe()));
      const bool leaves_out = compressor->describe() != "top-k 1" && compressor->describe() != "PowerSGD of rank 100, seed 0";
      const double difference = distance(trained_with(mesh, compressor), exact);
      EXPECT_TRUE(leaves_out ? difference > 1e-6 : difference <= 1e-12) << difference;
    }
  }
}

}  // namespace mesh_step_test
