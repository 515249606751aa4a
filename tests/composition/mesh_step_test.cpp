// SPDX-License-Identifier: Apache-2.0
// ParallelModel::step(): clipping, scaled losses and gradients that are not finite, over the whole mesh. Compressed gradients along `data`.
#include "mpi_test.hpp"

#include <cstdlib>
#include <filesystem>
#include <limits>
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
  EXPECT_NE(refusal({"data", world().size()}, {.compressor = tw::top_k_compression()}).find("without residuals only"), std::string::npos);
}

}  // namespace mesh_step_test
