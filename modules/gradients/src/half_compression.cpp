// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/collectives.hpp>
#include <tw/gradients/compression.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include "residuals.hpp"

namespace tw {
namespace {

class HalfCompression : public Compressor {
 public:
  explicit HalfCompression(c10::ScalarType dtype) : dtype_(dtype) {}

  std::string describe() const override { return dtype_name(dtype_); }

  void prepare(const BucketPlan& /*plan*/, const std::vector<TensorSpec>& gradients, c10::Device /*device*/) override {
    expect_compressible("half precision", gradients);
  }

  // Not an all-reduce: MPI knows no halves, so they would travel as float32. Each rank gets its piece of everybody's halves, sums them in float32 in
  // rank order, and shows the sum, rounded once.
  int64_t reduce(const Communicator& comm, size_t /*bucket*/, const at::Tensor& values) override {
    const int64_t ranks = comm.size();
    const int64_t piece = (values.numel() + ranks - 1) / ranks;
    const auto options = values.options().dtype(dtype_);
    const at::Tensor half = at::zeros({ranks, piece}, options);
    half.view({-1}).narrow(0, 0, values.numel()).copy_(values);
    const at::Tensor pieces = at::empty({ranks, piece}, options);
    alltoall(comm, half, pieces);
    const at::Tensor sum = at::sum(pieces.to(at::kFloat), 0).to(dtype_);
    allgather(comm, sum, half);
    values.copy_(half.view({-1}).narrow(0, 0, values.numel()));
    return static_cast<int64_t>(half.nbytes());
  }

 private:
  c10::ScalarType dtype_;
};

}  // namespace

std::shared_ptr<Compressor> half_compression(HalfPrecision precision) {
  return std::make_shared<HalfCompression>(precision == HalfPrecision::float16 ? at::kHalf : at::kBFloat16);
}

}  // namespace tw
