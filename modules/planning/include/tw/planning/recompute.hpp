// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::pipeline {

/// Which activations a stage keeps between the forward and the backward pass of a micro-batch. With k micro-batches in flight, and `saved` the bytes
/// that autograd keeps:
///
/// | | keeps | computes again | memory |
/// |---|---|---|---|
/// | none | what autograd keeps | nothing | (k - 1) saved(stage) + peak(stage) |
/// | selective | the inputs of its segments | each segment, right before its backward pass | (k - 1) kept(stage) + max (kept + peak)(segment) |
/// | full | its input | its forward pass, right before its backward pass | k input(stage) + peak(stage) |
///
/// If the backward pass directly follows the forward pass, the last segment (for full: everything) is not recomputed.
/// kept(segment): the inputs of a segment and of earlier ones, which the backward pass has not freed yet. kept(stage): the inputs of all its
/// segments.
/// peak: maximum memory during a backward pass: saved tensors, cotangents, scratch, and gradients before accumulation.
/// With recomputation, outputs must not depend on buffers that the stage itself changes in training.
/// Ref: Chen et al. 2016, arXiv 1604.06174.
enum class Recompute { none, selective, full };

}  // namespace tw::pipeline
