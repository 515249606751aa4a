// SPDX-License-Identifier: Apache-2.0
// The cost of tensors on a device for ranks. Contestants share a process and its device, which nothing else uses, and take turns.
//
// device/allreduce:   all-reduce of tensors on the device, by each capable backend. The baselines are the copies to pinned memory and back
//                     that staging needs at least, and the same operation on CPU tensors, which is the cost of the wire
// device/begin:       host time to begin an all-reduce, against beginning one copy
// device/step:        a training step through DataParallel on these ranks, against LibTorch alone
// device/host_time:   the same, until the host has queued a step on the stream
#pragma once
#include "measure.hpp"

#include <torch/torch.h>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <optional>
#include <tw/comm.hpp>
#include <tw/data_parallel.hpp>
#include <tw/models/gpt.hpp>
#include <tw/models/lenet.hpp>
#include <utility>

namespace tw::benchmark {

/// The device of a measurement, and its extent.
struct DeviceTrial {
  const Communicator& comm;
  c10::Device device;
  std::function<void(const at::Tensor&)> place;  ///< moves a parameter or a buffer to the device
  bool quick = false;                            ///< small, to check only that it works

  int rounds() const { return quick ? 3 : 20; }
  void synchronize() const { c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index()); }
};

struct DeviceContestant {
  std::function<void()> step;
  std::function<void()> after = [] {};  ///< not counted in host time
};

/// ms per step, until the device has completed it.
inline double until_done(const DeviceTrial& trial, const DeviceContestant& who, int steps) {
  const Stopwatch watch;
  for (int i = 0; i < steps; ++i) {
    who.step();
    who.after();
  }
  trial.synchronize();
  return 1e3 * watch.elapsed().count() / steps;
}

/// ms per step on the host, with empty device streams.
inline double on_host(const DeviceTrial& trial, const DeviceContestant& who, int steps) {
  Seconds total{0};
  for (int i = 0; i < steps; ++i) {
    const Stopwatch watch;
    who.step();
    total += watch.elapsed();
    who.after();
    trial.synchronize();
  }
  return 1e3 * total.count() / steps;
}

using TimeDevice = double (*)(const DeviceTrial&, const DeviceContestant&, int);

/// Runs the contestants in turns, round by round, after a warm-up of three rounds each; the first contestant alternates. Collective. @return by
/// contestant and round, ms per step on the slowest rank
inline std::vector<std::vector<double>> take_turns(const DeviceTrial& trial, TimeDevice time, int steps, const std::vector<DeviceContestant>& all) {
  constexpr int warm_up = 3;
  std::vector<std::vector<double>> times(all.size());
  for (int round = -warm_up; round < trial.rounds(); ++round) {
    for (size_t turn = 0; turn < all.size(); ++turn) {
      const size_t who = (turn + static_cast<size_t>(round + warm_up)) % all.size();
      trial.synchronize();
      trial.comm.barrier();
      const double ms = time(trial, all[who], steps);
      if (round >= 0) times[who].push_back(ms);
    }
  }
  for (auto& of : times) mpi::allreduce(trial.comm, {of.data(), static_cast<int64_t>(of.size()), ElementType::float64}, ReduceOp::max);
  return times;
}

/// Prints one JSON line on rank 0. `added_us` is the median of the differences, round by round.
inline void print(const DeviceTrial& trial, const std::string& benchmark, const std::string& name, const std::string& baseline,
                  const std::vector<double>& theirs, const std::vector<double>& ours) {
  if (trial.comm.rank() != 0) return;
  const auto spread = [](const std::vector<double>& times) { return (percentile(times, 0.9) - percentile(times, 0.1)) / percentile(times, 0.5); };
  std::vector<double> added = ours;
  for (size_t i = 0; i < added.size(); ++i) added[i] -= theirs[i];
  std::cout << nlohmann::ordered_json{{"benchmark", benchmark},
                                      {"case", name},
                                      {"device", trial.device.str()},
                                      {"ranks", trial.comm.size()},
                                      {"baseline", baseline},
                                      {"baseline_ms", percentile(theirs, 0.5)},
                                      {"ours_ms", percentile(ours, 0.5)},
                                      {"ratio", percentile(theirs, 0.5) / percentile(ours, 0.5)},
                                      {"added_us", 1e3 * percentile(added, 0.5)},
                                      {"rounds", trial.rounds()},
                                      {"spread", spread(ours)},
                                      {"baseline_spread", spread(theirs)}}
            << std::endl;
}

/// The backends that all-reduce tensors on devices here.
inline std::vector<std::string> device_backends(const Communicator& comm) {
  std::vector<std::string> names;
  for (const Availability& each : availability(comm)) {
    if (each.on_device && each.collective == Collective::allreduce && each.why_not.empty()) names.push_back(each.backend);
  }
  return names;
}

inline void measure_allreduce(const DeviceTrial& trial, const std::string& name, int64_t bytes, int steps) {
  const at::Tensor there = torch::ones({bytes / 4}, at::TensorOptions().device(trial.device));
  const at::Tensor pinned = torch::ones({bytes / 4}).pin_memory();
  const at::Tensor here = torch::ones({bytes / 4});
  const DeviceContestant copies{[&] {
    pinned.copy_(there, /*non_blocking=*/true);
    there.copy_(pinned, /*non_blocking=*/true);
  }};
  const DeviceContestant wire{[&] { allreduce(trial.comm, here, ReduceOp::average); }};
  const DeviceContestant copy{[&] { pinned.copy_(there, /*non_blocking=*/true); }};
  for (const std::string& backend : device_backends(trial.comm)) {
    const Communicator comm = trial.comm.dup();
    choose_backend(comm, backend);
    const std::string name_of_case = concat(name, '_', backend);
    const DeviceContestant ours{[&] { allreduce(comm, there, ReduceOp::average); }};
    const auto times = take_turns(trial, until_done, steps, {copies, wire, ours});
    print(trial, "device/allreduce", name_of_case, "pinned_copies", times[0], times[2]);
    print(trial, "device/allreduce", name_of_case, "on_the_cpu", times[1], times[2]);

    std::optional<Work> work;
    const DeviceContestant begin{[&] { work.emplace(iallreduce(comm, there, ReduceOp::average)); }, [&] { work->wait(); }};
    const auto begun = take_turns(trial, on_host, steps, {copy, begin});
    print(trial, "device/begin", name_of_case, "one_copy", begun[0], begun[1]);
  }
}

inline void measure_allreduces(const DeviceTrial& trial) {
  measure_allreduce(trial, "64KiB", int64_t{64} << 10, trial.quick ? 1 : 50);
  measure_allreduce(trial, "1MiB", int64_t{1} << 20, trial.quick ? 1 : 20);
  if (!trial.quick) measure_allreduce(trial, "64MiB", int64_t{64} << 20, 3);
}

/// Two 3x3 convolutions, added to the input, which passes a 1x1 convolution if the shape changes. Ref: He et al. 2016, figure 2.
struct BasicBlockImpl : torch::nn::Module {
  BasicBlockImpl(int64_t in, int64_t out, int64_t stride)
      : first(torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)),
        second(torch::nn::Conv2dOptions(out, out, 3).padding(1).bias(false)),
        first_norm(out),
        second_norm(out) {
    register_module("first", first);
    register_module("second", second);
    register_module("first_norm", first_norm);
    register_module("second_norm", second_norm);
    if (in == out && stride == 1) return;
    shortcut = register_module("shortcut", torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)),
                                                                 torch::nn::BatchNorm2d(out)));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = second_norm(second(torch::relu(first_norm(first(x)))));
    return torch::relu(y + (shortcut ? shortcut->forward(x) : x));
  }
  torch::nn::Conv2d first, second;
  torch::nn::BatchNorm2d first_norm, second_norm;
  torch::nn::Sequential shortcut{nullptr};
};
TORCH_MODULE(BasicBlock);

/// ResNet-18 for images [n, 3, height, width] and 1000 classes: 11,689,512 parameters. Ref: He et al. 2016, table 1.
inline torch::nn::Sequential make_resnet18() {
  using namespace torch::nn;
  Sequential net(Conv2d(Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)), BatchNorm2d(64), ReLU(),
                 MaxPool2d(MaxPool2dOptions(3).stride(2).padding(1)));
  int64_t in = 64;
  for (const int64_t out : {64, 128, 256, 512}) {
    net->push_back(BasicBlock(in, out, out == 64 ? 1 : 2));
    net->push_back(BasicBlock(out, out, 1));
    in = out;
  }
  net->push_back(AdaptiveAvgPool2d(1));
  net->push_back(Flatten());
  net->push_back(Linear(512, 1000));
  return net;
}

/// A network on a device, and the loss of its only training batch.
struct DeviceTraining {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor()> loss;
};

/// Trains with random targets of shape `targets`: classes, or one token for each position. @param inputs on the CPU
template <class Net>
DeviceTraining make_training(const DeviceTrial& trial, Net net, const at::Tensor& inputs, at::IntArrayRef targets, int64_t classes) {
  for (const at::Tensor& parameter : net->parameters()) trial.place(parameter);
  for (const at::Tensor& buffer : net->buffers()) trial.place(buffer);
  const at::Tensor x = inputs.to(trial.device);
  const at::Tensor y = torch::randint(classes, targets, torch::kLong).flatten().to(trial.device);
  return {net.ptr(), [net, x, y, classes]() mutable { return torch::cross_entropy_loss(net->forward(x).view({-1, classes}), y); }};
}

inline void measure_step(const DeviceTrial& trial, const std::string& name, int steps, const std::function<DeviceTraining()>& make) {
  struct Contestant {
    explicit Contestant(DeviceTraining of) : training(std::move(of)), sgd(training.module->parameters(), 1e-3) {}
    void step() {
      sgd.zero_grad();
      training.loss().backward();
      sgd.step();
    }
    DeviceTraining training;
    torch::optim::SGD sgd;
  };
  torch::manual_seed(1);
  Contestant plain(make());
  Contestant ours(make());
  const DataParallel parallel(trial.comm, *ours.training.module, {.reduction = Reduction::mean});
  const std::vector<DeviceContestant> both{{[&] { plain.step(); }}, {[&] { ours.step(); }}};
  const auto whole = take_turns(trial, until_done, steps, both);
  print(trial, "device/step", name, "libtorch", whole[0], whole[1]);
  const auto host = take_turns(trial, on_host, steps, both);
  print(trial, "device/host_time", name, "libtorch", host[0], host[1]);
}

inline void measure_steps(const DeviceTrial& trial) {
  const bool quick = trial.quick;
  measure_step(trial, "lenet", quick ? 1 : 20, [&] { return make_training(trial, models::LeNet(), torch::randn({64, 1, 28, 28}), {64}, 10); });
  const int64_t images = quick ? 2 : 32;
  const int64_t pixels = quick ? 32 : 224;
  measure_step(trial, "resnet18", quick ? 1 : 5,
               [&] { return make_training(trial, make_resnet18(), torch::randn({images, 3, pixels, pixels}), {images}, 1000); });
  const models::GptOptions small{.vocabulary = 64, .context = 16, .width = 32, .heads = 2, .blocks = 2};
  const models::GptOptions gpt2{.vocabulary = 50257, .context = 1024, .width = 768, .heads = 12, .blocks = 12};
  const models::GptOptions gpt = quick ? small : gpt2;
  const std::vector<int64_t> tokens{quick ? 2 : 4, gpt.context};
  measure_step(trial, "gpt2_small", 2,
               [&] { return make_training(trial, models::Gpt(gpt), torch::randint(gpt.vocabulary, tokens, torch::kLong), tokens, gpt.vocabulary); });
}

/// Collective. @param subject "allreduce" or "steps"
inline void measure(const DeviceTrial& trial, const std::string& subject) {
  TW_EXPECTS(subject == "allreduce" || subject == "steps", "the subject is allreduce or steps, not '", subject, "'");
  subject == "steps" ? measure_steps(trial) : measure_allreduces(trial);
}

}  // namespace tw::benchmark
