// SPDX-License-Identifier: Apache-2.0
#include <tw/base/exact_text.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/gradients/compression.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "residuals.hpp"

namespace tw {
namespace {

class TopKCompression : public Compressor {
 public:
  explicit TopKCompression(const TopKOptions& options) : options_(options) { options_.validate(); }

  std::string describe() const override { return "top-k " + exact_text(options_.fraction); }

  void prepare(const BucketPlan& plan, const std::vector<TensorSpec>& gradients, c10::Device device) override {
    residuals_.prepare("top-k", plan, gradients, device);
  }

  int64_t reduce(const Communicator& comm, size_t bucket, const at::Tensor& values) override {
    const at::Tensor& residual = residuals_.bucket(bucket);
    const int64_t n = values.numel();
    if (n == 0) return 0;
    const int64_t k = std::clamp<int64_t>(std::llround(options_.fraction * static_cast<double>(n)), 1, n);
    residual.add_(values);
    const at::Tensor places = std::get<1>(at::topk(residual.abs(), k, 0, /*largest=*/true, /*sorted=*/false));
    const at::Tensor chosen = residual.index_select(0, places);
    residual.index_fill_(0, places, 0);
    residual.nan_to_num_(0, 0, 0);  // one bad gradient must not stay for ever

    const at::Tensor all_places = at::empty({comm.size(), k}, chosen.options().dtype(at::kInt));
    const at::Tensor all_chosen = at::empty({comm.size(), k}, chosen.options());
    allgather(comm, places.to(at::kInt), all_places);
    allgather(comm, chosen, all_chosen);
    values.zero_();
    for (int64_t rank = 0; rank < comm.size(); ++rank) values.index_add_(0, all_places.select(0, rank), all_chosen.select(0, rank));
    return k * (4 + values.element_size());
  }

  std::vector<NamedShard> shards() const override { return residuals_.shards(); }

 private:
  TopKOptions options_;
  Residuals residuals_;
};

}  // namespace

void visit(TopKOptions& options, OptionVisitor& visitor) {
  visitor.field("fraction", options.fraction, {.least = 0, .most = 1, .above = true}, {.meaning = "of a bucket's elements, those that travel"});
}
void TopKOptions::validate() const { expect_none(out_of_bounds(*this)); }

std::shared_ptr<Compressor> top_k_compression(const TopKOptions& options) { return std::make_shared<TopKCompression>(options); }

}  // namespace tw
