// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/replicas.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/var.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <tw/base/concat.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/tensor/content_hash.hpp>

namespace tw {
namespace {

/// One rank's summary of its copy.
struct Fingerprint {
  uint64_t hash = 0;
  double mean = 0;
  double variance = 0;
};

Fingerprint fingerprint(const at::Tensor& tensor) {
  Fingerprint of;
  of.hash = content_hash(tensor);
  if (tensor.numel() == 0) return of;
  const at::Tensor size = at::abs(tensor.is_complex() ? tensor : tensor.to(at::kDouble)).to(at::kDouble);
  of.mean = at::mean(size).item().toDouble();
  of.variance = at::var(size, /*unbiased=*/false).item().toDouble();
  return of;
}

// The largest relative deviation of a value from the mean. A NaN deviates infinitely, unless all are NaN.
double greatest_deviation(const std::vector<double>& values) {
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  double greatest = 0;
  for (const double value : values) {
    if (value == mean || std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) continue;
    const double deviation = std::abs(value - mean) / std::abs(mean);
    greatest = std::isnan(deviation) ? HUGE_VAL : std::max(greatest, deviation);
  }
  return greatest;
}

}  // namespace

ReplicaReport compare_replicas(const Communicator& comm, const at::Tensor& tensor) {
  constexpr double tolerance = 1e-7;
  const at::NoGradGuard no_grad;
  const Fingerprint mine = fingerprint(tensor);
  std::vector<Fingerprint> all(static_cast<size_t>(comm.size()));
  mpi::allgather(comm, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));

  ReplicaReport report;
  report.ranks = comm.size();
  std::vector<double> means;
  std::vector<double> variances;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].hash != all[0].hash) report.differing.push_back(static_cast<int>(rank));
    means.push_back(all[rank].mean);
    variances.push_back(all[rank].variance);
  }
  report.identical = report.differing.empty();
  report.mean_deviation = greatest_deviation(means);
  report.variance_deviation = greatest_deviation(variances);
  report.similar = report.mean_deviation <= tolerance && report.variance_deviation <= tolerance;
  return report;
}

std::string ReplicaReport::describe() const {
  if (identical) return concat("identical on ", ranks, ranks == 1 ? " rank" : " ranks");
  return concat(differing.size() == 1 ? "rank " : "ranks ", joined(differing), differing.size() == 1 ? " differs" : " differ",
                " from rank 0: mean of |x| off by ", mean_deviation, ", variance by ", variance_deviation,
                similar ? " (relative; they are similar)" : " (relative)");
}

}  // namespace tw
