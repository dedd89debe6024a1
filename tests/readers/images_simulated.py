"""A small head in a grid of its own, three networks in it, and runs of a scanner: for the tests of images."""

from __future__ import annotations

import nibabel as nib
import numpy as np

SHAPE = (13, 15, 11)
AFFINE = np.array([[-3.0, 0, 0, 15], [0, 3, 0, -18], [0, 0, 4, -16], [0, 0, 0, 1]])
MNI = 4  # the code of sform for MNI space


def ellipsoid(shape=SHAPE, size=0.47):
    """A head: (nx, ny, nz), true inside."""
    grid = np.indices(shape)
    scaled = [(grid[axis] - (n - 1) / 2) / (size * n) for axis, n in enumerate(shape)]
    return sum(x**2 for x in scaled) < 1


MASK = ellipsoid()


def networks():
    """Independent maps over the voxels of the mask: (n_voxels, 3), unit columns, a blob each."""
    places, rng = np.argwhere(MASK), np.random.default_rng(0)
    peaks = [[2, 7, 5], [10, 7, 5], [6, 12, 5]]
    maps = np.column_stack([np.exp(-((places - peak) ** 2).sum(axis=1) / 2.5) for peak in peaks])
    maps += 0.02 * rng.standard_normal(maps.shape)
    return maps / np.linalg.norm(maps, axis=0)


NOISE, STRENGTH = 3.0, 40.0


def scaled_networks():
    """The same where every voxel has been scaled to variance one, which weakens what is strong."""
    maps = networks()
    maps = maps / np.sqrt(STRENGTH**2 * (maps**2).sum(axis=1, keepdims=True) + NOISE**2)
    return maps / np.linalg.norm(maps, axis=0)


def likeness(found):
    """Least cosine over the components (d, 3), each to the network that it is most like; each is another one."""
    cosines = np.abs(found.T @ scaled_networks())
    assert sorted(cosines.argmax(axis=1)) == [0, 1, 2]
    return cosines.max(axis=1).min()


def run_of(seed, n_volumes=60):
    """An image over time: baseline, drift, and networks with time courses of their own; float64 (nx, ny, nz, t)."""
    rng = np.random.default_rng(seed)
    maps = networks()
    series = STRENGTH * rng.standard_normal((n_volumes, maps.shape[1])) @ maps.T
    series += np.linspace(0, 5, n_volumes)[:, None] + NOISE * rng.standard_normal(series.shape)
    data = np.zeros((*SHAPE, n_volumes))
    data[MASK] = 1000 + series.T
    return data


def save(path, data, *, affine=AFFINE, dtype=np.float32):
    """Write an image as scanners and their tools do."""
    image = nib.Nifti1Image(np.asarray(data, dtype=dtype), affine)
    image.set_sform(affine, code=MNI)
    image.header.set_xyzt_units("mm", "sec")
    nib.save(image, path)
    return path
