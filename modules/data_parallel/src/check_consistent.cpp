// SPDX-License-Identifier: Apache-2.0
#include "module_tensors.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/objects.hpp>
#include <tw/data_parallel/check_consistent.hpp>
#include <tw/tensor/content_hash.hpp>

namespace tw {
namespace {

// The largest |a - b| of two tensors of one shape. Two NaNs count as equal, and so do two infinities of one sign.
double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0;
  const auto dtype = a.is_complex() ? at::kComplexDouble : at::kDouble;
  const at::Tensor x = a.to(dtype);
  const at::Tensor y = b.to(dtype);
  const at::Tensor difference = x.sub(y).abs();
  difference.masked_fill_(difference.isnan(), std::numeric_limits<double>::infinity());
  difference.masked_fill_(x.eq(y).logical_or(x.isnan().logical_and(y.isnan())), 0.0);
  return difference.max().item<double>();
}

// Over ranks and elements. Collective.
double largest_difference_from_rank_0(const Communicator& comm, const at::Tensor& tensor) {
  const at::Tensor mine = tensor.detach();
  const at::Tensor reference = mine.clone();
  broadcast(comm, reference, Rank(0));
  double largest = largest_difference(mine, reference);
  allreduce(comm, at::from_blob(&largest, {1}, at::TensorOptions().dtype(at::kDouble)), ReduceOp::max);
  return largest;
}

std::string list_of(const std::vector<int>& ranks) { return (ranks.size() == 1 ? "rank " : "ranks ") + joined(ranks); }

}  // namespace

ConsistencyReport check_consistent(const Communicator& comm, const std::vector<NamedTensor>& tensors) {
  const at::NoGradGuard no_grad;
  expect_same_on_all_ranks(comm, "the tensors to be compared", lines_of(specs_of(tensors)));
  std::string hashes;  // 8 bytes per tensor
  for (const NamedTensor& tensor : tensors) {
    const uint64_t hash = content_hash(tensor.tensor);
    hashes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  }
  ConsistencyReport report;
  report.ranks = comm.size();
  report.tensors = static_cast<int64_t>(tensors.size());
  if (all_agree(comm, hashes)) return report;

  report.consistent = false;
  const std::vector<std::string> all = allgather_strings(comm, hashes);
  const auto differs = [&](size_t rank, size_t id) {
    return std::memcmp(all[rank].data() + id * sizeof(uint64_t), all[0].data() + id * sizeof(uint64_t), sizeof(uint64_t)) != 0;
  };
  for (size_t id = 0; id < tensors.size(); ++id) {
    std::vector<int> differing;
    for (size_t rank = 1; rank < all.size(); ++rank) {
      if (differs(rank, id)) differing.push_back(static_cast<int>(rank));
    }
    if (differing.empty()) continue;
    if (++report.drifted > 1) continue;
    report.tensor = tensors[id].name;
    report.differing = std::move(differing);
    report.largest_difference = largest_difference_from_rank_0(comm, tensors[id].tensor);
  }
  return report;
}

ConsistencyReport check_consistent(const Communicator& comm, const torch::nn::Module& module) { return check_consistent(comm, tensors_of(module)); }

std::string ConsistencyReport::describe() const {
  if (consistent) {
    return concat(tensors, tensors == 1 ? " tensor is" : " tensors are", " identical on ", ranks, ranks == 1 ? " rank" : " ranks");
  }
  const std::string others = drifted == 1 ? "" : concat("; ", drifted, " of ", tensors, " tensors differ");
  return concat(tensor, " differs from rank 0 on ", list_of(differing), ", by at most ", largest_difference, others);
}

}  // namespace tw
