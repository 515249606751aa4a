// SPDX-License-Identifier: Apache-2.0
// What a configuration of `torchweave train` may not say, and what it says in vain.
#include <gtest/gtest.h>

#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

#include "half_arithmetic.hpp"
#include "keys_without_effect.hpp"
#include "train_config.hpp"
#include "validation.hpp"

namespace train_config_test {

using namespace tw::tool;
using Settings = std::vector<std::string>;

struct Refused {
  Settings settings;
  Settings problems;  ///< all that are reported
};

const Refused refused[] = {
    {{"optimiser.lr=1"}, {"--set: unknown key optimiser.lr; did you mean optimizer.lr?"}},
    {{"epochs=-1", "batch_size=big"},
     {"--set: epochs must be at least 0, got -1; the nearest valid value is 0", "--set: batch_size must be an integer, got \"big\""}},
    {{"model.name=lenett"},
     {"--set: model.name is \"lenett\", but must be one of \"lenet\", \"mlp\", \"resnet\", \"convnet\", \"residual\", \"gru\", \"lstm\", "
      "\"torchscript\"; the nearest is \"lenet\""}},
    {{"uneven=even"}, {"--set: uneven is \"even\", but must be one of \"exact\", \"drop\", \"pad\"; the nearest is \"exact\""}},
    {{"non_finite=restore", "checkpoint.every_epochs=0", "global_batch=7", "accumulation=2"},
     {"--set: non_finite is \"restore\", but no checkpoints are kept; the nearest valid value is \"skip\", or checkpoint.every_epochs = 1",
      "--set: global_batch must be a multiple of accumulation = 2, got 7; the nearest valid value is 8"}},
    {{"replicas.meet=parameter_server", "replicas.algorithm=eamsgd"},
     {"--set: replicas.algorithm is \"eamsgd\", which requires optimizer.name = \"sgd\" and optimizer.nesterov = true; the nearest valid value is "
      "\"easgd\""}},
    {{"replicas.meet=local_sgd", "replicas.compression=float16"},
     {"--set: replicas.compression needs replicas.meet = \"every_step\"; float16 and bfloat16 also work with \"diloco\"; the nearest valid value is "
      "\"none\""}},
    {{"mesh.shard=0", "replicas.compression=float16"},
     {"--set: replicas.compression is not supported for sharded gradients; the nearest valid value is \"none\""}},
    {{"strategy.name=sharded", "strategy.period=3", "max_gradient_norm=1"},
     {"--set: max_gradient_norm is now called clip.norm",
      "--set: strategy.name is now called replicas.meet, or mesh.shard and shard.what for a model that is divided among ranks",
      "--set: strategy.period is now called replicas.period"}},
    {{"optimizer.nesterov=true", "optimizer.momentum=0"},
     {"--set: optimizer.nesterov is for optimizer.name = \"sgd\" with a momentum; the nearest valid value is false"}},
    {{"data.kind=regression"},
     {"default: model.name is \"lenet\", which takes images, but data.kind is \"regression\"; the nearest valid value is \"mlp\""}},
    {{"data.kind=regression", "model.name=mlp", "data.shift=1"},
     {"--set: data.shift and data.flip are for images, but data.kind is \"regression\"; the nearest valid value is 0 and false"}},
    {{"mesh.layer=2"},
     {"--set: mesh.layer is for model.name = \"residual\" or \"gru\" or \"lstm\", whose layers or time steps can be in parallel, not for \"lenet\"; "
      "the "
      "nearest valid value is 1"}},
    {{"model.name=gru", "layer_parallel.forward_iterations=0"},
     {"default: layer_parallel.backward_iterations and layer_parallel.forward_iterations must be both 0 (serial), or both positive; the nearest "
      "valid "
      "value is 1 and 1"}},
    {{"model.name=gru", "layer_parallel.schedule.epochs=[1, 2]", "layer_parallel.schedule.forward=[1, 2]"},
     {"--set: layer_parallel.schedule.epochs has 2 entries, but layer_parallel.schedule.forward has 2 and backward has 0; the nearest valid value "
      "is the same number in each"}},
    {{"model.name=gru", "layer_parallel.detector.bound=0"},
     {"--set: layer_parallel.detector.bound must be positive, got 0; the nearest valid value is 1e-4"}},
    {{"data.kind=adding"}, {"default: model.name is \"lenet\", which takes images, but data.kind is \"adding\"; the nearest valid value is \"mlp\""}},
    {{"mesh.stage=2", "model.name=residual"},
     {"--set: mesh.stage is not supported for model.name = \"residual\", which cannot be cut into stages; the nearest valid value is 1"}},
    {{"mesh.shard=2", "shard.what=optimizer", "replicas.meet=local_sgd"},
     {"--set: shard.what must be \"parameters\" if replicas do not meet in every step; the nearest valid value is \"parameters\""}},
    {{"mesh.stage=2", "replicas.compression=top_k"},
     {"--set: replicas.compression must be \"none\", \"float16\" or \"bfloat16\" for a model that several ranks hold together; the nearest valid "
      "value is \"none\""}},
    {{"model.name=torchscript"},
     {"default: model.path must name a TorchScript file if model.name = \"torchscript\"; the nearest valid value is \"model.pt\""}},
    {{"early_stopping.watch=mae"},
     {"--set: early_stopping.watch is \"mae\", which is not measured on data of kind \"mnist\"; the nearest valid value is \"loss\""}},
    {{"data.validation=-0.1"},
     {"--set: data.validation must be a share below 1, a whole number of samples or a folder, got -0.1; the nearest valid value is 0.1"}},
    {{"data.validation=1.5"},
     {"--set: data.validation must be a share below 1, a whole number of samples or a folder, got 1.5; the nearest valid value is 0.1"}},
    {{"data.validation=[0.1, 0.2]"}, {"--set: data.validation must be one share, one number or one folder; the nearest valid value is 0.1"}},
    {{"data.kind=adding", "model.name=mlp", "data.validation=elsewhere"},
     {"--set: data.validation must be a share or a number for data of kind \"adding\", got \"elsewhere\"; the nearest valid value is 0.1"}},
    {{"data.validation=0", "early_stopping.patience=3"},
     {"--set: early_stopping.patience needs a validation set, but data.validation is 0; the nearest valid value is 0"}},
    {{"name=.."}, {"--set: name must be the name of one folder, without \"/\" or control characters; the nearest valid value is \"run\""}},
    {{"name=\"a\\nb\""}, {"--set: name must be the name of one folder, without \"/\" or control characters; the nearest valid value is \"a_b\""}},
    {{"loader_workers=100000"}, {"--set: loader_workers must be at most 256, got 100000; the nearest valid value is 256"}},
    {{"batch_size=9223372036854775807"},
     {"--set: batch_size must be at most 100000000, got 9223372036854775807; the nearest valid value is 100000000"}},
    {{"mesh.layer=4294967297", "model.name=residual"},
     {"--set: mesh.layer must be at most 2147483647, got 4294967297; the nearest valid value is 2147483647"}},
    {{"layer_parallel.levels=4294967297"},
     {"--set: layer_parallel.levels must be at most 2147483647, got 4294967297; the nearest valid value is 2147483647"}},
    {{"mesh.data=4", "replicas.meet=local_sgd", "replicas.ranks_per_group=3"},
     {"--set: replicas.ranks_per_group is 3, which does not divide the number of ranks along mesh.data, 4; the nearest valid value is 2"}},
    {{"mesh.shard=0", "replicas.meet=local_sgd", "replicas.ranks_per_group=2"},
     {"--set: replicas.ranks_per_group is 2, which does not divide the number of ranks along mesh.data, 1; the nearest valid value is 1"}},
    {{"replicas.outer_momentum=1"}, {"--set: replicas.outer_momentum must be below 1, got 1; the nearest valid value is 0.99"}},
    {{"precision.compute=bf16"},
     {"--set: precision.compute is \"bf16\", but must be one of \"float32\", \"bfloat16\", \"float16\"; the nearest is \"bfloat16\""}},
    {{"precision.loss_scale=0"}, {"--set: precision.loss_scale must be positive, got 0; the nearest valid value is 1e-4"}},
    {{"precision.scale_loss=true"}, {"--set: precision.scale_loss needs precision.compute = \"bfloat16\"; the nearest valid value is false"}},
    {{"precision.compute=float16", "replicas.compression=top_k"},
     {"--set: replicas.compression keeps the parts of gradients that it does not send, which are invalid after the loss scale changes; the nearest "
      "valid value is \"none\""}},
    {{"precision.compute=bfloat16", "model.dtype=float64"},
     {"--set: precision.compute is for model.dtype = \"float32\", not \"float64\"; the nearest valid value is \"float32\""}},
    {{"precision.compute=float16", "model.name=lstm"},
     {"--set: precision.compute is not supported for model.name = \"lstm\", whose time steps are in parallel; the nearest valid value is "
      "\"float32\""}},
    {{"optimizer.lr=nan"}, {"--set: optimizer.lr must be positive, got nan; the nearest valid value is 1e-4"}},
};

struct Chosen {
  std::string setting;
  double share;
  int64_t count;
  std::string folder;
  int64_t held_out;  ///< of 200 samples
};

const Chosen chosen[] = {{"epochs=1", 0.1, 0, "", 20},
                         {"data.validation=0", 0, 0, "", 0},
                         {"data.validation=0.25", 0.25, 0, "", 50},
                         {"data.validation=0.0001", 0.0001, 0, "", 1},
                         {"data.validation=0.9999", 0.9999, 0, "", 199},
                         {"data.validation=30", 0, 30, "", 30},
                         {"data.validation=\"runs/heat\"", 0, 0, "runs/heat", 0},
                         {"data.validation=runs/heat", 0, 0, "runs/heat", 0}};

tw::Config config_of(const Settings& settings) {
  tw::Config config;
  for (const std::string& setting : settings) config.set(setting);
  return config;
}

TEST(TrainConfig, RefusesEachWithWhatWouldDo) {
  for (const Refused& each : refused) {
    tw::Config config = config_of(each.settings);
    try {
      (void)read_train_config(config);
      ADD_FAILURE() << testing::PrintToString(each.settings) << " was accepted";
    } catch (const tw::ConfigError& error) {
      EXPECT_EQ(error.problems(), each.problems) << testing::PrintToString(each.settings);
    }
  }
}

TEST(TrainConfig, TakesItsDefaults) {
  tw::Config config;
  const TrainConfig read = read_train_config(config);
  EXPECT_EQ(tw::value_lines(read), tw::value_lines(TrainConfig{}));
}

TEST(TrainConfig, HoldsOutAShareANumberOrAFolder) {
  for (const Chosen& each : chosen) {
    tw::Config config = config_of({each.setting});
    const tw::tool::Validation validation = tw::tool::validation_of(tw::tool::read_train_config(config).data);
    EXPECT_EQ(validation.share, each.share) << each.setting;
    EXPECT_EQ(validation.count, each.count) << each.setting;
    EXPECT_EQ(validation.folder, each.folder) << each.setting;
    EXPECT_EQ(validation.held_out(200), each.held_out) << each.setting;
  }
  EXPECT_THROW((void)tw::tool::Validation{.count = 200}.held_out(200), tw::Error);
  EXPECT_EQ(tw::tool::Validation{.share = 0.1}.held_out(1), 0);
}

struct InVain {
  Settings settings;
  Settings lines;
};

const InVain in_vain[] = {
    {{"model.width=3"}, {"--set: model.width has no effect with model.name = \"lenet\"; it is for \"mlp\" or \"gru\" or \"lstm\""}},
    {{"model.width=3", "model.name=mlp"}, {}},
    {{"batch_size=3", "global_batch=4"}, {"--set: batch_size has no effect with global_batch = 4; it is for 0"}},
    {{"pipeline.schedule=gpipe"}, {"--set: pipeline.schedule has no effect with mesh.stage = 1"}},
    {{"pipeline.schedule=gpipe", "mesh.stage=2"}, {}},
    {{"schedule.final_factor=0.5", "schedule.decay=step"},
     {"--set: schedule.final_factor has no effect with schedule.decay = \"step\"; it is for \"cosine\""}},
    {{"layer_parallel.levels=3"},
     {"--set: layer_parallel.levels has no effect with model.name = \"lenet\"; it is for \"residual\" or \"gru\" or \"lstm\""}},
    {{"model.name=gru", "layer_parallel.recompute=true"},
     {"--set: layer_parallel.recompute has no effect with model.name = \"gru\"; it is for \"residual\""}},
    {{"precision.growth_interval=3"},
     {"--set: precision.growth_interval has no effect with precision.compute = \"float32\"; it is for \"bfloat16\" or \"float16\""}},
    {{"precision.scale_loss=true", "precision.compute=float16"},
     {"--set: precision.scale_loss has no effect with precision.compute = \"float16\"; it is for \"bfloat16\""}},
    {{"precision.scale_loss=true", "precision.growth_interval=3", "precision.compute=bfloat16"}, {}},
    {{"replicas.period=3"},
     {"--set: replicas.period has no effect with replicas.meet = \"every_step\"; it is for \"local_sgd\" or \"diloco\" or \"parameter_server\""}},
    {{"shard.unit_bytes=3"}, {"--set: shard.unit_bytes has no effect with mesh.shard = 1"}},
    {{"shard.unit_bytes=3", "mesh.shard=0", "shard.what=optimizer"},
     {"--set: shard.unit_bytes has no effect with shard.what = \"optimizer\"; it is for \"parameters\""}},
    {{"replicas.ranks_per_group=2"},
     {"--set: replicas.ranks_per_group has no effect with replicas.meet = \"every_step\"; it is for \"local_sgd\" or \"diloco\" or "
      "\"parameter_server\""}},
    {{"replicas.ranks_per_group=3", "replicas.meet=diloco"}, {}},  // of all remaining ranks, whose number is unknown
    {{"replicas.period=3", "replicas.meet=local_sgd"}, {}},        // whatever the algorithm, which has itself no effect
    {{"replicas.period=3", "replicas.meet=parameter_server", "replicas.algorithm=ssp"},
     {"--set: replicas.period has no effect with replicas.algorithm = \"ssp\"; it is for \"downpour\" or \"easgd\" or \"eamsgd\""}},
};

TEST(TrainConfig, NamesKeysWithoutEffect) {
  for (const InVain& each : in_vain) {
    tw::Config config = config_of(each.settings);
    (void)read_train_config(config);
    EXPECT_EQ(keys_without_effect(config), each.lines) << testing::PrintToString(each.settings);
  }
}

TEST(HalfArithmetic, IsReadFromTheProcessorsFlags) {
  using tw::ComputeType;
  const auto x86 = half_arithmetic_in("processor : 0\nflags\t\t: fpu avx2 avx512_bf16\nprocessor : 1\nflags : fpu avx512_fp16\n");
  EXPECT_EQ(describe(x86), "bfloat16 by avx512_bf16; no instructions for float16");
  EXPECT_EQ(why_slow(ComputeType::bfloat16, x86), "");
  EXPECT_EQ(why_slow(ComputeType::float16, x86),
            "precision.compute = \"float16\" is several times slower than \"float32\" on this processor, which has no instructions for it");
  EXPECT_EQ(describe(half_arithmetic_in("Features : fp asimd asimdhp bf16\n")), "bfloat16 by bf16; float16 by asimdhp");
  const auto old = half_arithmetic_in("flags : fpu avx2\n");
  EXPECT_NE(why_slow(ComputeType::bfloat16, old), "");
  EXPECT_EQ(why_slow(ComputeType::float32, old), "");
}

}  // namespace train_config_test
