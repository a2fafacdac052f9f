"""Each caller's own login at upstreams: asked for by a link, made in their browser, and used for nobody else."""
