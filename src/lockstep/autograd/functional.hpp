#pragma once
// Differentiable operations, with PyTorch's names and meaning (torch.nn.functional, torch).
// Floating operands of one operation are all f32 or all f64, or of 16 bits, which operations see as
// f32 (autograd/operand.hpp); floating tensors beside them (targets, statistics) are f32 then. All
// throw ShapeError, printing the shapes, when operands do not fit. "Broadcast" is NumPy's rule:
// shapes are aligned at their last dimension, and an extent of 1, or a missing one, is repeated.
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/attention.hpp>
#include <lockstep/autograd/functional/batch_norm.hpp>
#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/autograd/functional/conv_nd.hpp>
#include <lockstep/autograd/functional/ctc_loss.hpp>
#include <lockstep/autograd/functional/distance.hpp>
#include <lockstep/autograd/functional/einsum.hpp>
#include <lockstep/autograd/functional/embedding.hpp>
#include <lockstep/autograd/functional/embedding_bag.hpp>
#include <lockstep/autograd/functional/expand.hpp>
#include <lockstep/autograd/functional/gated.hpp>
#include <lockstep/autograd/functional/group_norm.hpp>
#include <lockstep/autograd/functional/in_projection.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/linear_cross_entropy.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/matmul.hpp>
#include <lockstep/autograd/functional/norm.hpp>
#include <lockstep/autograd/functional/order.hpp>
#include <lockstep/autograd/functional/pool.hpp>
#include <lockstep/autograd/functional/recurrent.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/regression_loss.hpp>
#include <lockstep/autograd/functional/resample.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/functional/vector_norm.hpp>
#include <lockstep/autograd/functional/where.hpp>
